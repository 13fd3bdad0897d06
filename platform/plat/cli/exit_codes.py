"""With which code `plat` leaves when not all is fine; bad input is 2 (see `plat.errors`)."""

RUNS_FAILED = 3
INTERRUPTED = 130
PIPE_CLOSED = 128 + 13  # what a shell reports for a program ended by SIGPIPE
