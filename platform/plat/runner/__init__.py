"""Executes one run in this process: `execution.execute` takes its lease, trains, and records how it ended."""
