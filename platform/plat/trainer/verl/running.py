"""verl's workers and servers from their start to their end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from plat.trainer.verl.cluster import import_plug_in, ray_cluster
from plat.trainer.verl.config import VerlRunConfig
from plat.trainer.verl.model_files import ModelFiles
from plat.trainer.verl.overrides import compose


@contextmanager
def running_trainer(config: VerlRunConfig, files: ModelFiles) -> Iterator[Any]:
    """A `plat.trainer.verl.trainer.Trainer` with the weights in `files`; its processes end with the block."""
    with ray_cluster(config):
        import transfer_queue as tq

        import_plug_in()
        from plat.trainer.verl.trainer import Trainer

        composed = compose(config, files.path)
        tq.init(composed.transfer_queue)
        try:
            trainer = Trainer(composed, config)
            trainer.start()
            yield trainer
        finally:
            tq.close()
