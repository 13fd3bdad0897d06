"""The exit codes of every verb. 0: all fine; 1: a mistake in plat itself."""

from __future__ import annotations

BAD_INPUT = 2  # nothing was done
RUNS_FAILED = 3
INTERRUPTED = 130  # the state is safe
PIPE_CLOSED = 128 + 13  # what a shell reports for a program ended by SIGPIPE
