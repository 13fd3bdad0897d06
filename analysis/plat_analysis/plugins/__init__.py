"""Find report builders and claim checks by entry point, check their arguments, and name failures."""
