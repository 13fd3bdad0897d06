"""The maths of RAGEN-2 as pure functions of arrays. Knows nothing of files, trainers or MLflow."""
