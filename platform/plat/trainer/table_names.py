"""Names of logged tables that the command line reads."""

from __future__ import annotations

VAL_TRAJECTORIES = "val_trajectories"  # of an evaluation, see `plat.trainer.embedded.transcripts`
