"""Record the code that a run was made with, without secrets."""
