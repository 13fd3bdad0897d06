"""A bundle: finished runs as small Parquet files, made to be carried and kept in git."""
