"""Execute runs on this machine, in worker processes forked from one warm server."""
