"""Store everything that plat keeps on disk or in MLflow.

home             file names in a home
disk/            files that survive a kill or a power cut
run_directory/   one run on disk: files, state, lease, attempts, events, checkpoints
index/           cache of the run directories
coordination/    live sweeps, submissions, trials, preparations
cleaning/        removal of runs, archives and leftovers
mlflow/          import of results into MLflow, and reading them as frames
bundle/          transfer of runs from one home to another
provenance/      record of the code of a run
"""
