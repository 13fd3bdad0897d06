"""The Ray that a run with verl starts for itself, and what ends it."""
