"""Metrics of verl's workers in an update, under the names of both trainers."""

from __future__ import annotations

from typing import Any

# verl's name -> ours
ACTOR_METRICS = {
    "actor/pg_loss": "actor/pg_loss",
    "actor/pg_clipfrac": "actor/clip_fraction",
    "actor/pg_clipfrac_lower": "actor/clip_fraction_lower",
    "actor/ppo_kl": "actor/ppo_kl",
    "entropy": "actor/entropy",
    "kl": "actor/kl",
    "grad_norm": "actor/grad_norm",
}
CRITIC_METRICS = {
    "critic/vf_loss": "critic/value_loss",
    "critic/vf_clipfrac": "critic/value_clip_fraction",
    "grad_norm": "critic/grad_norm",
}


def renamed(measured: dict[str, Any], names: dict[str, str]) -> dict[str, float]:
    """Return verl's metrics of a mini-batch under our names, each reduced to one number; drop all others.

    verl's `reduce_metrics` does the reduction: the values of a list are averaged, unless their name or type says
    otherwise.

    names   verl's name -> ours
    """
    from verl.utils.metric import reduce_metrics

    reduced = reduce_metrics({name: value for name, value in measured.items() if name in names})
    return {names[name]: float(value) for name, value in reduced.items()}
