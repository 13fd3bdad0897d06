"""The parts that every built-in trainer shares around its algorithm.

    bookkeeper         the order of a run: evaluation, peak, held-out instances, probe, early stops, log, checkpoints
    trainable          the interface of a trainer for the book-keeper
    training_progress  the run's progress in a checkpoint, and a stopwatch
    trajectory_table   measurements of a batch and of an evaluation; which trajectories belong to which prompt
    prompt_selection   DAPO's refills, the filter of section 4, and the plan of the update that follows
    played_response    the effect of a response in an environment
    proxy_scoring      which reasonings are scored under which prompts for the proxies of mutual information
    instance_sets      the fixed instances of an evaluation
    check_task         checks before submission: `rehearsal` of plugged-in environments, and enough problems
    randomness         the random numbers of a run

`plat_rl.embedded.train` owns its loop; see `bookkeeper` for a trainer whose loop belongs to a library.
"""
