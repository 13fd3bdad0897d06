"""Call trainers: train a run, do the work that runs share, and preload imports. No other module calls trainers."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
from typing import Any

from plat.errors import PlatError, RunError
from plat.processes.identification import this_process
from plat.processes.own_process import pin_threads
from plat.spec.composition.trainer_calls import checked_call
from plat.store.home import Home
from plat.store.run_directory.numerics import numerics
from plat.store.run_directory.run_io import FileRunIO
from plat.trainer.api import Outcome, Trainer
from plat.trainer.finding import find_trainer
from plat.user_code import definition_of


def train(home: Home, typed: Any, spec: Trainer, threads: int, io: FileRunIO) -> Outcome:
    """Do the run's shared work unless it is cached, then train. Raises RunError if the trainer returns no Outcome.

    An exception of the training or of the shared work itself passes unchanged.
    """
    _preload(spec)
    pin_threads(threads)
    if checked_call(spec, "preparation")(typed) is not None:
        spec.prepare(typed, home.cache)
    outcome = spec.train(typed, io)
    if not isinstance(outcome, Outcome):
        raise RunError(
            f"the trainer {spec.name!r} returned {outcome!r:.80}, not an Outcome",
            where=definition_of(spec.train),
            fix='end it with `return Outcome("finished")`',
        )
    return outcome


def prepare(home: Home, trainer: str, config: dict[str, Any], threads: int = 1) -> None:
    """Do the shared work that a run needs. If it is cached, this is quick."""
    spec = find_trainer(trainer)
    _preload(spec)
    pin_threads(threads)
    spec.prepare(typed_config(config, spec), home.cache)


def warm_up(trainer: str) -> None:
    """Import and compute what every run of this trainer needs, in a server that will be forked."""
    spec = find_trainer(trainer)
    numerics(), this_process()  # workers inherit what these remember
    _preload(spec)
    with contextlib.suppress(TypeError, PlatError):  # a config without defaults: each run does it
        typed_config(dataclasses.asdict(spec.config_type()), spec)


def _preload(spec: Trainer) -> None:
    for name in spec.preload:
        importlib.import_module(name)


def typed_config(config: dict[str, Any], spec: Trainer) -> Any:
    """Return a run's plain config as the trainer's `config_type`. Raises SpecError if it does not fit."""
    from plat.spec.expansion.experiment import config_object

    return config_object(config, spec)
