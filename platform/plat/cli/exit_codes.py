"""With which code `plat` leaves when not all is fine. Bad input is 2 (`plat.errors`), Ctrl-C 130 (`plat.interrupt`)."""

RUNS_FAILED = 3
PIPE_CLOSED = 128 + 13  # what a shell reports for a program ended by SIGPIPE
