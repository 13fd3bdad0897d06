"""Results in MLflow: the importer from run directories, and the reader of tidy frames."""
