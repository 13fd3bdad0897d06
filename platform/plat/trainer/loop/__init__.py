"""What every built-in trainer does around its algorithm, written once.

    bookkeeper     the order of a run: evaluation, peak, held-out instances, probe, early stops, log, checkpoints, end
    trainable      what the book-keeper asks of a trainer
    progress       what of that a checkpoint carries, and where the time went
    trajectories   what is measured of a batch and of an evaluation, and which trajectories belong to which prompt
    refill         DAPO's dynamic sampling
    selection      the filter of section 4 on a batch, and the plan of the update that follows
    scoring        which reasonings are scored under which prompts for the proxies of mutual information
    instances      the fixed instances of an evaluation
    enough_problems  whether the task has as many of them, before any run starts
    randomness     where the random numbers of a run come from

A trainer that owns its loop reads like `plat.trainer.embedded.train`. A trainer whose loop belongs to a library calls
the same object from the library's hooks: see `bookkeeper`.
"""
