"""The names of all metrics that the trainers of this package log (`Trainer.metrics`), and of their tables.

A name of a metric may hold wildcards as in `fnmatch`: `grad/q*/task` matches `grad/q1/task`, `grad/q2/task`, ...
"""

from __future__ import annotations

from plat_envs.api import LEVELS
from plat_envs.sandbox.hack import KINDS

HELDOUT_SUCCESS = "heldout/success"  # of the peak checkpoint
HELDOUT_FINAL_SUCCESS = "heldout/final_success"
HELDOUT_BASE_SUCCESS = "heldout/base_success"  # of the base model, before training
VAL_TRAJECTORIES = "val_trajectories"  # a table of an evaluation, see `plat_rl.embedded.evaluate.transcripts`


def _named(prefix: str, names: str) -> tuple[str, ...]:
    """Return the space-separated names with `prefix` before each."""
    return tuple(prefix + name for name in names.split())


_MUTUAL_INFORMATION = (
    "retrieval_acc retrieval_chance retrieval_above_chance recall_at_2 recall_at_4 recall_at_8 "
    "mi_est mi_seq_est mi_zscore mi_zscore_ema mi_zscore_seq h_z h_z_seq h_z_given_x h_z_given_x_seq upper_bound "
    "mi_est_code mi_zscore_code mi_zscore_ema_code h_z_code retrieval_chance_code "
    "valid_reasonings valid_share over_blank"
)

_OF_A_BATCH = (
    *_named("", "success return_mean reward_std reward_var rv_std_over_mean zero_variance_prompts"),
    *_named("", "format_valid reasoning_parses facts_true response_tokens entropy constant_reward"),
    *_named("reward_var_", "min q25 median q75 max within_success"),
    *_named("", "easy_prompts mixed_prompts hard_prompts"),
    *_named("level/", " ".join(LEVELS)),
)

METRICS = (
    *_named("val/", "success return turns actions_per_turn moves_per_turn format_valid response_tokens"),
    "val/constant_reward",
    *_named("val/", "success_swapped return_swapped format_valid_swapped replaced_swapped"),
    *_named("val/", "success_blanked return_blanked format_valid_blanked replaced_blanked"),
    *_named("heldout/", "success final_success base_success peak_step"),
    *(f"{batch}{name}" for batch in ("rollout/", "precheck/") for name in _OF_A_BATCH),
    *_named("rollout/", "refills informative_prompts"),
    "precheck/rv_std",
    *_named("hack/", " ".join(("any", *KINDS))),
    *_named("mi/first_turn/", _MUTUAL_INFORMATION),
    *_named("mi/trajectory/", _MUTUAL_INFORMATION),
    *_named("mi/turn_*/", _MUTUAL_INFORMATION),
    *_named("probe/", "retrieval_acc retrieval_chance retrieval_untrained"),
    *_named("probe/", "valid_reasonings fluent facts_true h_z_given_x"),
    *_named("probe/level/", " ".join(LEVELS)),
    *_named("probe/retrieval_acc/", " ".join(LEVELS)),
    *_named("filter/", "kept_prompts kept_share kept_mass empty loss_scale updates"),
    *_named("actor/", "pg_loss kl entropy grad_norm clip_fraction clip_fraction_lower ppo_kl"),
    *_named("critic/", "value_loss value_clip_fraction grad_norm"),
    *_named("grad/q*/", "task entropy kl reward_std_mean reward_std_min reward_std_max prompts"),
    *_named("grad/q*/", "regulariser halves_inner halves_cosine null_task null_inner null_cosine"),
    *_named("time/", "rollout refill cross_score gradient filter update eval probe step"),
    "mem/peak_mb",
)
VERL_METRICS = (*METRICS, "rollout/cut", "mi/score_gap")
