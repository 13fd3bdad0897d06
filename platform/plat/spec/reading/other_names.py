"""Map option names of other code bases (verl, TRL) to those of the built-in trainers, for hints about unknown keys."""

from __future__ import annotations

from collections.abc import Collection

# Names, or the ends of dotted names -> the option of plat.
OTHER_NAMES = {
    "critic.lr": "train.critic_lr",
    "critic.learning_rate": "train.critic_lr",
    "critic.optim.lr": "train.critic_lr",
    "critic.warmup": "train.critic_warmup",
    "critic.cliprange_value": "algorithm.value_clip",
    "cliprange_value": "algorithm.value_clip",
    "learning_rate": "train.lr",
    "optim.lr": "train.lr",
    "grad_clip": "train.max_grad_norm",
    "clip_grad": "train.max_grad_norm",
    "rollout.n": "train.group_size",
    "num_generations": "train.group_size",
    "train_batch_size": "train.prompts",
    "batch_size": "train.prompts",
    "ppo_mini_batch_size": "train.mini_batches",
    "mini_batch_size": "train.mini_batches",
    "ppo_epochs": "train.mini_batches",
    "epochs": "train.iterations",
    "steps": "train.iterations",
    "max_steps": "train.iterations",
    "total_epochs": "train.iterations",
    "total_training_steps": "train.iterations",
    "save_freq": "train.checkpoint_every",
    "test_freq": "eval.every",
    "max_response_length": "task.response_tokens",
    "adv_estimator": "algorithm.advantage",
    "norm_adv_by_std_in_grpo": "algorithm.norm_by_std",
    "loss_agg_mode": "algorithm.loss_agg",
    "clip": "algorithm.clip_low",
    "cliprange": "algorithm.clip_low",
    "clip_ratio": "algorithm.clip_low",
    "clip_ratio_low": "algorithm.clip_low",
    "clip_ratio_high": "algorithm.clip_high",
    "clip_ratio_c": "algorithm.clip_c",
    "kl": "algorithm.kl_coef",
    "kl_loss_coef": "algorithm.kl_coef",
    "algorithm.beta": "algorithm.kl_coef",
    "entropy": "algorithm.entropy_coef",
    "entropy_coeff": "algorithm.entropy_coef",
    "lambda": "algorithm.lam",
    "gae_lambda": "algorithm.lam",
    "gpus": "verl.workers",
    "n_gpus": "verl.workers",
    "n_gpus_per_node": "verl.workers",
    "nnodes": "verl.nodes",
    "tp": "verl.tensor_parallel",
    "tensor_model_parallel_size": "verl.tensor_parallel",
    "verl.engine": "verl.rollout",
    "rollout.name": "verl.rollout",
    "gpu_memory_utilization": "verl.gpu_memory",
    "verl.micro_batch": "verl.tokens_per_gpu",
    "ppo_max_token_len_per_gpu": "verl.tokens_per_gpu",
    "ppo_micro_batch_size_per_gpu": "verl.tokens_per_gpu",
    "max_prompt_length": "verl.prompt_tokens",
}
# The sections of verl's own config. VERLS_OWN sets all other keys in them.
OF_VERL = ("actor_rollout_ref", "critic", "data", "reward", "trainer")
VERLS_OWN = "verl.overrides"
OF_THE_CRITIC = ("train.critic_lr", "train.critic_warmup", "algorithm.value_clip")


def hint(key: str, value: object, options: Collection[str]) -> str | None:
    """Return the fix for a key of another code base; None if no fix applies.

    The fix names the option in OTHER_NAMES if `options` has it. Any key in a section of OF_VERL gets an entry of
    `verl.overrides` with `value`, if `options` has VERLS_OWN. A key of `critic` gets the valid options of the critic.
    """
    section, *parts = names = key.lower().split(".")
    for start in range(len(names) if section != "critic" else 1):
        meant = OTHER_NAMES.get(".".join(names[start:]))
        if meant in options:
            return f"did you mean {meant!r}?"
    if parts and section in OF_VERL and VERLS_OWN in options:
        return f"a setting that only verl's own config has is written '{VERLS_OWN}=[\"{key}={value}\"]'"
    if section == "critic" and (of_the_critic := [option for option in OF_THE_CRITIC if option in options]):
        return f"options of the critic: {', '.join(of_the_critic)}"
    return None
