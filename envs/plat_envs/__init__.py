"""Text environments behind one protocol (`api`): pure Python, no torch, no import of `plat`."""
