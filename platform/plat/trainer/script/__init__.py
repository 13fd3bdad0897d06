"""The trainer `script`: run any command as a run, and read its metrics."""
