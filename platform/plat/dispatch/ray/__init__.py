"""Hands runs to Ray: `dispatcher` follows them, `client` and `bridge` talk to the cluster, `actor` and `task` execute.

Each task is a detached actor of Ray Core, named after its submission, so a run goes on when the command that asked for
it has ended, and Ray itself starts it again elsewhere when its node is lost. Ray Tune's controller is not used: its
trials end with the process that started them.
"""
