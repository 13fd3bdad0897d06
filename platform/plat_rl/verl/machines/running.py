"""Start verl's workers and servers, and end them with a block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from plat.units import counted
from plat_rl.verl.machines.private_cluster import import_plug_in, ray_cluster
from plat_rl.verl.settings.composition import compose
from plat_rl.verl.settings.models import ModelFiles, workers
from plat_rl.verl.settings.verl_config import VerlRunConfig
from plat_rl.verl.settings.verl_overrides import rollout_engine


@contextmanager
def running_trainer(
    config: VerlRunConfig, files: ModelFiles, say: Callable[[str], None] = lambda text: None
) -> Iterator[Any]:
    """Yield a started `plat_rl.verl.update.trainer.Trainer` with the weights in `files`.

    Its processes end with the block, or, on a cluster that was joined (`ray_cluster`), with this process.

    say   called with a short text before each stage; the start takes half a minute or more
    """
    say("starting Ray" if config.verl.nodes == 1 else f"starting Ray on {config.verl.nodes} nodes")
    with ray_cluster(config):
        say("importing verl")
        import transfer_queue as tq

        import_plug_in()
        from plat_rl.verl.update.trainer import Trainer

        composed = compose(config, files.path)
        tq.init(composed.transfer_queue)
        try:
            training = counted(workers(config) * config.verl.nodes, "training worker")
            say(f"starting {training} and the rollout engine {rollout_engine(config)}")
            trainer = Trainer(composed, config)
            trainer.start()
            yield trainer
        finally:
            tq.close()
