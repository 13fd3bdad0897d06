"""The checkpoint that a run would go on from."""

from plat.store.run_directory.checkpoint import valid_states


def newest_valid(folders, peak=False):
    """(step, path) of the newest checkpoint that loads, over several folders; of those marked `peak` only, if asked."""
    newest = next(valid_states(folders, peak), None)
    return None if newest is None else newest[:2]
