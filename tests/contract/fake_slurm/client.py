"""sbatch, squeue, sacct, scancel, scontrol and sinfo of the fake SLURM: passes the call to its controller."""

import json
import os
import socket
import sys

connection = socket.socket(socket.AF_UNIX)
connection.connect(os.environ["FAKE_SLURM"] + "/socket")
request = {
    "command": os.path.basename(sys.argv[0]),
    "arguments": sys.argv[1:],
    "environment": dict(os.environ),
    "folder": os.getcwd(),
}
connection.sendall(json.dumps(request).encode() + b"\n")
line = connection.makefile().readline()
reply = json.loads(line) if line else {"code": 1, "error": "slurm_load_jobs error: Unable to contact slurm controller"}
sys.stdout.write(reply.get("out", ""))
sys.stderr.write(reply.get("error", ""))
sys.exit(reply["code"])
