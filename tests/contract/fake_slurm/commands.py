"""What the fake SLURM answers to sbatch, squeue, sacct, scancel, scontrol and sinfo."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Any

from cluster import Cluster, Element, Job

Reply = dict[str, Any]
TITLE = "ARRAY_JOB_ID|ARRAY_TASK_ID|STATE|NAME\n"  # above the list of squeue


class Commands:
    """`faults` says what is to go wrong (see controller.py)."""

    def __init__(self, cluster: Cluster, faults: dict[str, Any]) -> None:
        self.cluster = cluster
        self.faults = faults
        self.max_array_size = 1001
        self.cluster_name = "fake"
        self._number = 100

    def sbatch(self, request: dict[str, Any]) -> Reply:
        if self.faults["refuse"]:
            return {"code": 1, "error": f"sbatch: error: Batch job submission failed: {self.faults['refuse']}"}
        script = request["arguments"][-1]
        options = {}
        for line in Path(script).read_text().splitlines():
            if matched := re.match(r"#SBATCH --([\w-]+)(?:=(.*))?", line):
                options[matched[1]] = (matched[2] or "").strip("'")
        span, _, parallel = options.get("array", "").partition("%")
        first, _, last = span.partition("-")
        count = int(last) - int(first) + 1 if last else 1
        if "array" in options and count > self.max_array_size:
            return {"code": 1, "error": "sbatch: error: Batch job submission failed: Invalid job array specification"}
        self._number += 1
        job = Job(
            self._number,
            options["job-name"],
            options.get("comment", ""),
            script,
            request["environment"],
            request["folder"],
            options,
            bool(span),
            int(parallel or count),
        )
        self.cluster.elements += [Element(job, index) for index in range(count)]
        return {"code": 0, "out": f"Submitted batch job {self._number}\n"}

    def squeue(self, request: dict[str, Any]) -> Reply:
        arguments = request["arguments"]
        names = arguments[arguments.index("--name") + 1].split(",") if "--name" in arguments else None
        if self.cluster_name != "fake":  # another one, which has none of the jobs
            return {"code": 0, "out": TITLE}
        listed = [
            e for e in self.cluster.elements if self.cluster.is_listed(e) and (names is None or e.job.name in names)
        ]
        lines = [self._line(e, str(e.index)) for e in listed if e.state != "PENDING"]
        for job in {id(e.job): e.job for e in listed}.values():
            waiting = [e for e in listed if e.job is job and e.state == "PENDING"]
            if waiting:
                lines.append(self._line(waiting[0], expression([e.index for e in waiting], job.parallel)))
        title = "" if "--noheader" in arguments else TITLE
        return {"code": 0, "out": title + "".join(f"{line}\n" for line in lines)}

    def _line(self, element: Element, index: str) -> str:
        job = element.job
        return "|".join([str(job.number), index if job.array else "N/A", element.state, job.name, "None", job.comment])

    def sacct(self, request: dict[str, Any]) -> Reply:
        if self.faults["accounting"] == "off":
            return {"code": 1, "error": "Slurm accounting storage is disabled"}
        names = request["arguments"][request["arguments"].index("--name") + 1].split(",")
        late = self.faults["late"] if self.faults["accounting"] == "late" else 0.0
        ended = [
            e for e in self.cluster.elements if e.ended and e.job.name in names and self.cluster.now() - e.ended >= late
        ]
        return {"code": 0, "out": "".join(f"{e.job.name}|{e.name}|{e.state} by 0\n" for e in ended)}

    def scancel(self, request: dict[str, Any]) -> Reply:
        arguments = request["arguments"]
        number = next((a.partition("=")[2] for a in arguments if a.startswith("--signal")), "")
        for element in self.cluster.named([a for a in arguments if not a.startswith("-")]):
            if number:
                self.cluster.send(element, getattr(signal, f"SIG{number}"))
            elif element.state == "PENDING":
                element.state, element.ended = "CANCELLED", self.cluster.now()
            elif not element.ended:
                self.cluster.end(element, "CANCELLED")
        return {"code": 0, "out": ""}

    def scontrol(self, request: dict[str, Any]) -> Reply:
        arguments = request["arguments"]
        if arguments[:2] == ["show", "config"]:
            private = "jobs,usage" if self.faults["hidden"] else "none"
            facts = {"ClusterName": self.cluster_name, "MaxArraySize": self.max_array_size, "PrivateData": private}
            return {"code": 0, "out": "".join(f"{name:<24}= {value}\n" for name, value in facts.items())}
        if "partition" in arguments:
            low = "PartitionName=low Default=YES DefaultTime=NONE MaxTime=UNLIMITED\n"
            return {"code": 0, "out": f"{low}PartitionName=high Default=NO DefaultTime=00:30:00 MaxTime=UNLIMITED\n"}
        if arguments[0] == "requeue":
            for element in self.cluster.named(arguments[1:]):
                self.cluster.end(element, "PENDING")
            return {"code": 0, "out": ""}
        return {"code": 1, "error": "scontrol: error: not known here"}

    def sinfo(self, request: dict[str, Any]) -> Reply:
        return {"code": 0, "out": "low* up infinite 1 idle node1\n"}


def expression(indices: list[int], parallel: int) -> str:
    """As squeue prints it: "4-7,9%2"."""
    spans: list[list[int]] = []
    for index in sorted(indices):
        if spans and index == spans[-1][1] + 1:
            spans[-1][1] = index
        else:
            spans.append([index, index])
    return ",".join(f"{a}-{b}" if a != b else str(a) for a, b in spans) + f"%{parallel}"
