"""Execute one run in this process: `execution.execute` takes its lease, `attempt.perform` trains and records."""
