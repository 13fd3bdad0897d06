"""Templates of the daemons' settings files, for `str.format`."""

# Each node has 4 nominal CPUs, so that several tasks run at once on a small machine.
SLURM = """\
ClusterName={name}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={root}/run/munge.socket,cred_expire=5
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool/%n
SlurmctldPidFile={root}/run/slurmctld.pid
SlurmdPidFile={root}/run/slurmd-%n.pid
SlurmctldLogFile={root}/log/slurmctld.log
SlurmdLogFile={root}/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
JobAcctGatherType=jobacct_gather/none
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,sched_interval=2,batch_sched_delay=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
JobRequeue=1
KillWait=5
MinJobAge={min_job_age}
MaxArraySize=1001
SlurmctldTimeout=60
SlurmdTimeout=60
BatchStartTimeout=20
AccountingStorageType={accounting}
NodeName=node[1-{nodes}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs=4 Boards=1 Sockets=1 \
CoresPerSocket=4 ThreadsPerCore=1 RealMemory=4000 State=UNKNOWN
PartitionName=low Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=1 PreemptMode=REQUEUE GraceTime=10 State=UP
PartitionName=high Nodes=ALL Default=NO MaxTime=INFINITE PriorityTier=10 PreemptMode=OFF State=UP
"""

SLURMDBD = """\
AuthType=auth/munge
AuthInfo=socket={root}/run/munge.socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={dbd_port}
SlurmUser=root
LogFile={root}/log/slurmdbd.log
PidFile={root}/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database_port}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct_db
"""

DATABASE_GRANTS = """\
create database if not exists slurm_acct_db;
create user if not exists 'slurm'@'127.0.0.1' identified by 'slurm';
create user if not exists 'slurm'@'localhost' identified by 'slurm';
grant all on slurm_acct_db.* to 'slurm'@'127.0.0.1';
grant all on slurm_acct_db.* to 'slurm'@'localhost';
flush privileges;
"""
