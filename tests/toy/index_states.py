"""How runs stand, as their directories say and as the index does, to be compared."""

from __future__ import annotations

from dataclasses import replace

from plat.store.index.indexed_runs import states
from plat.store.run_directory.state import run_state


def truth(home, ids):
    """What the directories say; ages aside, which go on."""
    return {run_id: replace(run_state(home.run(run_id)), age=None) for run_id in ids}


def told(home, ids):
    return {run_id: replace(state, age=None) for run_id, state in states(home, ids).items()}
