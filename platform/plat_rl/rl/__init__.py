"""The maths of RAGEN-2 as pure functions of arrays, independent of files, trainers and MLflow."""
