"""Bundles: finished runs as small Parquet files, to be copied and kept in git."""
