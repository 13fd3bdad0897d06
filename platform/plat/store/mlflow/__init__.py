"""The results: the importer from run directories into MLflow, and the reader of tidy frames."""
