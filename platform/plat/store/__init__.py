"""Everything that plat keeps on disk or in MLflow.

home             the name of every file
layout           where the run directories of a home lie
durable          files that survive a kill or a power cut
process          which process wrote something, and whether it still runs
preparations     work shared by runs that is going on now
run_directory/   one run on disk: files, state, lease, attempts, events, checkpoints
mlflow/          the importer of results into MLflow, and the reader that gives them back as frames
bundle/          runs that travel from one home to another
provenance/      what code made a run
"""
