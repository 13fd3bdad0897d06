"""verl's synchronous trainer with the iteration of plat: verl's stages, in plat's order and with plat's data.

verl's trainer makes the workers, the rollout servers and the batch's home in TransferQueue, and computes log-probs,
values and optimiser steps. Its `fit` is not used: a run's order is that of `plat_rl.loop.bookkeeper`.

What differs from verl's own update, and why:

    filter          rows that are dropped are removed before log-probs and values are computed, which saves their cost
    mini-batches    hold only the kept rows; padding is added only where data parallelism needs it. verl fills each
                    mini-batch with padding rows up to its configured size. This has three effects: half of the time
                    that the filter saves is lost, a mini-batch that has only padding divides zero by zero, and the
                    seq-mean losses shrink by the kept share although no option asks for it
    advantages      in float64 (`plat_rl.rl.algorithms`), with the reward of each turn at that turn's last token. In
                    float32, verl's GRPO gives equal returns an advantage of up to .48
    replay buffer   is polled every tenth of a second; verl waits two seconds between looks
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import ray
import transfer_queue as tq
from omegaconf import open_dict
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.padding_utils import upsample_batch_to_divisible_size
from verl.trainer.ppo.utils import Role
from verl.trainer.ppo.v1 import AgentLoopManagerTQ
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.utils.padding import response_to_nested

from plat.errors import RunError
from plat_rl.rl.filter.selection import StepPlan
from plat_rl.rl.gradient_probe import terms_of
from plat_rl.verl.rollouts.play import Play, Played, play
from plat_rl.verl.rollouts.verl_cross_score import Pairs, log_likelihoods
from plat_rl.verl.settings.verl_config import VerlRunConfig
from plat_rl.verl.update.batches import (
    ACTOR_METRICS,
    CRITIC_METRICS,
    MiniBatch,
    filled_up,
    mini_batches,
    renamed,
    targets,
)
from plat_rl.verl.update.loss import SCALE, TERM, ActorWorker, CriticWorker, scaled_policy_loss, scaled_value_loss
from plat_rl.verl.vision.processor import VisionProcessor

POLL = 0.1  # seconds between two polls of the replay buffer


class Trainer(PPOTrainerSync):  # type: ignore[misc]
    """verl's workers and servers of one run, and the parts of an iteration."""

    def __init__(self, composed: Any, config: VerlRunConfig) -> None:
        super().__init__(composed)
        self.plat = config
        self.replay_buffer.poll_interval = POLL

    def start(self) -> None:
        """Start all processes of the run, with the actor's weights in the rollout."""
        self.init()
        self.manager = AgentLoopManagerTQ.create(
            config=self.config,
            llm_client=self.get_llm_client(),
            teacher_client=None,
            reward_loop_worker_handles=self.get_reward_handles(),
        )
        actor = omega_conf_to_dataclass(self.config.actor_rollout_ref.actor)
        self.actor_rollout_wg.set_loss_fn(partial(scaled_policy_loss, config=actor))
        if self.use_critic:
            critic = omega_conf_to_dataclass(self.config.critic)
            self.critic_wg.set_loss_fn(partial(scaled_value_loss, config=critic))

    # --- changes to verl's set-up -------------------------------------------------------------------------------------

    def _init_dataloader(self) -> None:
        """Set the number of steps for the optimisers. There are no data files: instances come from seeds."""
        self.total_training_steps = self.config.trainer.total_training_steps
        self.steps_per_epoch = self.total_training_steps
        with open_dict(self.config):
            self.config.actor_rollout_ref.actor.optim.total_training_steps = self.total_training_steps
            self.config.critic.optim.total_training_steps = self.total_training_steps

    def _init_resource_pool_mgr(self) -> None:
        """Use workers whose learning rate can be set."""
        super()._init_resource_pool_mgr()
        for role in self.role_worker_mapping:
            self.role_worker_mapping[role] = ray.remote(CriticWorker if role == Role.Critic else ActorWorker)

    # --- the parts of an iteration ------------------------------------------------------------------------------------

    def play(self, what: Play, step: int, partition: str = "train") -> Played:
        """Play episodes of the policy (`rollouts.play.play`); `train` rows stay in TransferQueue until `forget`."""
        return play(self.manager, self.replay_buffer, what, step, partition)

    def forget(self, keys: list[str]) -> None:
        """Remove the rows with these keys from TransferQueue's partition `train`."""
        if keys:
            tq.kv_clear(keys=keys, partition_id="train")

    @contextmanager
    def without_rollout(self) -> Iterator[None]:
        """Let the rollout servers sleep in the block, to free memory; then give them the newest weights and wake them.

        If the block raises, they stay asleep.
        """
        self.checkpoint_manager.sleep_replicas()
        yield
        self.checkpoint_manager.update_weights(self.global_steps)

    def log_likelihoods(self, pairs: Pairs) -> np.ndarray:
        """Return the log-likelihood of each (prompt, reasoning), by the actor at the rollouts' temperature."""
        vision = self.processor if isinstance(self.processor, VisionProcessor) else None
        return log_likelihoods(self.actor_rollout_wg, pairs, self.plat.train.temperature, self.processes, vision)

    @property
    def processes(self) -> int:
        """The number of training processes that share a batch."""
        return int(self.actor_rollout_wg.world_size)

    def update(self, kept: Played, plan: StepPlan, step: int, rng: np.random.Generator) -> dict[str, float]:
        """Do the updates of iteration `step` on the trajectories that the filter kept, and `forget` their rows.

        Returns the `actor/` and `critic/` metrics, means over the mini-batches.
        """
        self.global_steps = step
        batches, padding = mini_batches(kept.trajectory_of_sequence, plan.updates, self.processes, rng)
        rows = self._padded(kept, padding)
        self._with_targets(rows, kept, plan.advantage_scale)
        history = [self._step(_part(rows, batch), batch.trajectories, plan, step) for batch in batches]
        self.forget(list(rows.keys))
        return {name: float(np.mean([metrics[name] for metrics in history])) for name in history[0]}

    def gradient_norms(self, played: Played, parts: Sequence[np.ndarray]) -> list[dict[str, float]]:
        """Return each part's gradient norm of each term of the policy's loss (`plat_rl.rl.gradient_probe`).

        parts   numbers of trajectories; each part is a mini-batch. Advantages are those of the whole batch

        Weights and optimisers are unchanged; the batch is removed from TransferQueue.
        """
        batches, padding = filled_up(parts, played.trajectory_of_sequence, self.processes)
        rows = self._padded(played, padding)
        self._with_targets(rows, played, advantage_scale=1.0)
        norms: list[dict[str, float]] = []
        for batch in batches:
            part = _part(rows, batch)
            measured: dict[str, float] = {}
            for term in terms_of(self.plat.algorithm):
                part.extra_info = self._information(len(part), batch.trajectories) | {TERM: term}
                output = self.actor_rollout_wg.gradient_norm(part)
                measured |= renamed(output["metrics"], {"grad_norm": term})
            norms.append(measured)
        self.forget(list(rows.keys))
        return norms

    def _padded(self, played: Played, padding: int) -> KVBatchMeta:
        """Return the rows of a batch, followed by `padding` rows."""
        rows = KVBatchMeta(partition_id="train", keys=list(played.keys), tags=played.tags)
        return upsample_batch_to_divisible_size(rows, len(rows) + padding, self.tokenizer.eos_token_id)

    def _with_targets(self, rows: KVBatchMeta, played: Played, advantage_scale: float) -> None:
        """Store old log-probs, the reference's, values, advantages and returns with the rows, once per iteration."""
        unused: dict[str, Any] = {}
        keys, tags = list(rows.keys), list(rows.tags)

        def again() -> KVBatchMeta:
            extra = {"temperature": self.plat.train.temperature}
            return KVBatchMeta(partition_id="train", keys=keys, tags=tags, extra_info=extra)

        self._compute_old_log_prob(again(), unused)
        if self.use_reference_policy:
            self._compute_ref_log_prob(again(), unused)
        if self.use_critic:
            self._compute_values(again(), unused)
        fields = ["response_mask", *(["values"] if self.use_critic else [])]
        stored = tq.kv_batch_get(keys=keys, partition_id="train", select_fields=fields)
        nested_mask = stored["response_mask"]
        mask = nested_mask.to_padded_tensor(0)
        values = stored["values"].to_padded_tensor(0) if self.use_critic else None
        computed = targets(self.plat, played, played.trajectory_of_sequence, mask, values, advantage_scale)
        nested = {name: response_to_nested(value, nested_mask) for name, value in computed.items()}
        tq.kv_batch_put(keys=keys, partition_id="train", fields=TensorDict(nested, batch_size=len(keys)))

    def _step(self, rows: KVBatchMeta, trajectories: int, plan: StepPlan, step: int) -> dict[str, float]:
        """Make one optimiser step of the actor, and one of the critic, on a mini-batch of `trajectories` real ones."""
        train = self.plat.train
        information = self._information(len(rows), trajectories) | {SCALE: plan.loss_scale}
        metrics: dict[str, float] = {}
        if not (self.use_critic and step <= train.critic_warmup):
            self.actor_rollout_wg.set_learning_rate(train.lr * plan.lr_scale)
            rows.extra_info = dict(information)
            output = self.actor_rollout_wg.update_actor(rows)
            metrics |= renamed(output["metrics"], ACTOR_METRICS)
        if self.use_critic:
            self.critic_wg.set_learning_rate(train.critic_lr * plan.lr_scale)
            rows.extra_info = dict(information)
            output = self.critic_wg.train_mini_batch(rows).get()
            metrics |= renamed(output["metrics"], CRITIC_METRICS)
        return metrics

    def _information(self, sequences: int, trajectories: int) -> dict[str, Any]:
        """Return what verl's workers need besides the rows of a mini-batch."""
        return {
            "calculate_entropy": True,
            "distillation_use_topk": False,
            "distillation_only": False,
            "global_batch_size": trajectories,
            "mini_batch_size": sequences,
            "epochs": 1,
            "seed": self.plat.seed,
            "dataloader_kwargs": {"shuffle": False},
            "temperature": self.plat.train.temperature,
        }

    # --- checkpoints --------------------------------------------------------------------------------------------------

    def save(self, folder: Path, step: int) -> None:
        """Write weights, optimisers, schedulers and random states below `folder`, a part for each process."""
        self.actor_rollout_wg.save_checkpoint(str(folder / "actor"), None, step, max_ckpt_to_keep=None)
        if self.use_critic:
            self.critic_wg.save_checkpoint(str(folder / "critic"), None, step, max_ckpt_to_keep=None)

    def load(self, folder: Path, step: int) -> None:
        """Load what `save` wrote; update the rollout. Raises RunError if missing or of another number of processes."""
        if not (folder / "actor").is_dir():
            raise RunError("the checkpoint has no actor", where=str(folder))
        if not (folder / "actor" / f"model_world_size_{self.processes}_rank_0.pt").exists():
            raise RunError(
                f"the checkpoint was not written by {self.processes} training process(es)",
                where=str(folder),
                fix="leave verl.workers and verl.nodes as they were",
            )
        self.checkpoint_manager.sleep_replicas()
        self.actor_rollout_wg.load_checkpoint(local_path=str(folder / "actor"), del_local_after_load=False)
        if self.use_critic:
            self.critic_wg.load_checkpoint(local_path=str(folder / "critic"), del_local_after_load=False)
        self.global_steps = step
        self.checkpoint_manager.update_weights(step)


def _part(rows: KVBatchMeta, batch: MiniBatch) -> KVBatchMeta:
    keys, tags = ([values[number] for number in batch.sequences] for values in (rows.keys, rows.tags))
    return KVBatchMeta(partition_id="train", keys=keys, tags=tags)
