"""Remove runs, archives and leftovers from a home."""
