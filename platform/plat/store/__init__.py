"""Everything that plat keeps on disk or in MLflow.

`home` names every file, `durable` writes files that survive a kill, `run_directory/` is one run on disk, `mlflow/`
imports the runs' results into MLflow and reads them back as frames, `bundle/` carries runs between homes, `provenance/`
records what code made a run.
"""
