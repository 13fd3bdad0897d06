"""Run directories, the event spool, the importer into MLflow and the reader of frames."""
