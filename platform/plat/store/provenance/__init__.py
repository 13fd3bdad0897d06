"""What code a run was made with, recorded without secrets."""
