"""verl's workers and servers from their start to their end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from plat.trainer.verl.cluster import import_plug_in, ray_cluster
from plat.trainer.verl.composition import compose
from plat.trainer.verl.config import VerlRunConfig
from plat.trainer.verl.model_files import ModelFiles
from plat.trainer.verl.models import workers
from plat.trainer.verl.overrides import rollout_engine
from plat.units import counted


@contextmanager
def running_trainer(
    config: VerlRunConfig, files: ModelFiles, say: Callable[[str], None] = lambda text: None
) -> Iterator[Any]:
    """A `plat.trainer.verl.trainer.Trainer` with the weights in `files`; its processes end with the block.

    say   takes what is being done, in a few words: half a minute or more passes before there is a trainer
    """
    say("starting Ray" if config.verl.nodes == 1 else f"starting Ray on {config.verl.nodes} nodes")
    with ray_cluster(config):
        say("importing verl")
        import transfer_queue as tq

        import_plug_in()
        from plat.trainer.verl.trainer import Trainer

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
