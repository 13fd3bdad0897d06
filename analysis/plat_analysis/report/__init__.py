"""The report of one experiment: built from frames, shown on the terminal, written as files and as one page."""
