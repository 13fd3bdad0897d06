"""What the trainer relies on inside verl, which promises none of it: says what changed when verl is upgraded.

Each entry is a function or class of verl that we replace, override, or call although it is private, with the reason and
the first digits of the hash of its source in verl 0.9.1. After an upgrade: read the entries that are named, fix the
code that they concern, run `make test-verl`, then write the new digits here
(`python tests/plat_rl/verl/test_compatibility.py` prints them).
"""

from __future__ import annotations

import hashlib
import inspect
import re
from functools import reduce
from importlib import import_module
from typing import Any, NamedTuple

import pytest

VERSION = "0.9.1"
pytestmark = pytest.mark.filterwarnings("ignore")  # what verl imports warns of its own future


class Touch(NamedTuple):
    place: str  # module:attribute.attribute
    why: str
    digest: str


LOOP = "verl.experimental.agent_loop.agent_loop:AgentLoopWorker"
V1, ENGINE = "verl.trainer.ppo.v1.trainer_base:PPOTrainer", "verl.workers.engine.fsdp.transformer_impl:FSDPEngine"
TOUCHED = (
    Touch("verl.plugin.platform.platform_manager:get_platform", "cpu/register sets the platform", "722adad8"),
    Touch("verl.plugin.platform.platform_base:PlatformBase", "cpu/platform implements it", "7a119c68"),
    Touch("verl.workers.rollout.base:get_rollout_class", "cpu/register adds to its private table", "3e190997"),
    Touch("verl.workers.rollout.base:BaseRollout", "cpu/rollout.HFAdapter implements it", "e44c55eb"),
    Touch("verl.workers.rollout.replica:RolloutReplica", "cpu/rollout.HFReplica implements it", "85af25f8"),
    Touch("verl.workers.rollout.replica:TokenOutput", "cpu/rollout.HFServer answers with it", "a5856c37"),
    Touch(
        "verl.workers.rollout.llm_server:LLMServerClient.generate", "agent_loop asks it, HFServer answers", "07228154"
    ),
    Touch("verl.utils.distributed:initialize_global_process_group_ray", "cpu/repairs.use_gloo wraps it", "6290de37"),
    Touch("verl.utils.model:load_valuehead_model", "cpu/repairs.load_critic replaces it", "729bc32f"),
    Touch("verl.utils.torch_functional:logprobs_from_logits_v2", "cpu/repairs.label_log_probs replaces it", "19e037f0"),
    Touch(
        "verl.utils.torch_functional:logprobs_from_logits",
        "calls what we replace where flash-attn is missing",
        "cc959e85",
    ),
    Touch("verl.utils.tokenizer:hf_processor", "cpu/vision_repairs replaces it for models that see", "47d69ee1"),
    Touch("verl.utils.tensordict_utils:maybe_fix_3d_position_ids", "cpu/vision_repairs replaces it", "e4a28fea"),
    Touch("verl.models.transformers.qwen2_vl:_get_input_embeds", "cpu/vision_repairs wraps it", "ca7a8d58"),
    Touch("verl.utils.model:extract_multi_modal_inputs", "joins what cross_score sends of pictures", "f2c06a1a"),
    Touch(f"{LOOP}._compute_multi_modal_inputs", "calls vision.processor, and gets the features from it", "d0e0a695"),
    Touch(f"{LOOP}._compute_position_ids", "calls vision.processor.get_rope_index", "ee591744"),
    Touch(f"{ENGINE}._build_fsdp_module", "uses CPUOffloadPolicy by the name that cpu/repairs replaces", "0191f573"),
    Touch(f"{ENGINE}.forward_backward_batch", "says what batch_num_tokens is in loss.scaled_policy_loss", "20f2ee7a"),
    Touch(f"{ENGINE}.lr_scheduler_step", "puts the learning rate back that loss.ActorWorker sets", "a45085de"),
    Touch(
        "verl.workers.engine_workers:TrainingWorker.train_mini_batch",
        "trainer._step makes one optimiser step",
        "9d0b0b55",
    ),
    Touch(
        "verl.workers.engine_workers:TrainingWorker.infer_batch", "cross_score sends it a batch of its own", "4d8ff22a"
    ),
    Touch(
        "verl.workers.engine_workers:ActorRolloutRefWorker.init_model",
        "loss.ActorWorker changes a part of it",
        "a555f8b8",
    ),
    Touch("verl.workers.engine_workers:ActorRolloutRefWorker.update_weights", "HFAdapter gets the weights", "998cb7b3"),
    Touch("verl.workers.utils.losses:ppo_loss", "loss.loss_terms has its terms one by one", "ad72f78a"),
    Touch("verl.workers.utils.losses:value_loss", "loss.scaled_value_loss scales it", "fde2e232"),
    Touch("verl.workers.utils.padding:response_from_nested", "positions of log-probs in cross_score", "d3d1acb9"),
    Touch("verl.workers.utils.padding:response_to_nested", "trainer stores advantages with it", "10bdac44"),
    Touch("verl.trainer.ppo.padding_utils:upsample_batch_to_divisible_size", "trainer pads for processes", "43aadb59"),
    Touch(f"{V1}.__init__", "trainer.Trainer calls it", "a0beac02"),
    Touch(f"{V1}._setup", "starts all processes of a run", "7aa9e7f6"),
    Touch(f"{V1}._init_dataloader", "trainer.Trainer replaces it", "5d567c7c"),
    Touch(f"{V1}._init_resource_pool_mgr", "trainer.Trainer exchanges the worker classes", "b6ca9440"),
    Touch(f"{V1}._compute_old_log_prob", "a stage of trainer.update", "d9a023c4"),
    Touch(f"{V1}._compute_ref_log_prob", "a stage of trainer.update", "46779e76"),
    Touch(f"{V1}._compute_values", "a stage of trainer.update", "11f788e7"),
    Touch(f"{V1}._save_checkpoint", "trainer.save writes the same parts", "87b3e805"),
    Touch(f"{V1}._load_checkpoint", "trainer.load reads the same parts", "8e36de8c"),
    Touch("verl.trainer.main_ppo:TaskRunnerV1.run", "train.train does what it does, in the run's process", "457f4d17"),
    Touch("verl.trainer.ppo.v1.replay_buffer:ReplayBuffer.sample", "play waits with it", "89bb5dcd"),
    Touch("verl.trainer.ppo.v1.agent_loop_tq:AgentLoopWorkerTQ", "plays the rows that play submits", "e3b75f7c"),
    Touch(
        "verl.experimental.agent_loop.agent_loop:AgentLoopBase.__init__", "PlatAgentLoop does not call it", "9abf037e"
    ),
    Touch("verl.experimental.agent_loop.agent_loop:AgentLoopOutput", "PlatAgentLoop answers with it", "97f5076b"),
    Touch(
        "verl.experimental.reward_loop.reward_loop:RewardLoopManager._init_reward_loop_workers",
        "starts none",
        "6096a685",
    ),
    Touch(
        "verl.checkpoint_engine.base:CheckpointEngineManager.update_weights", "the rollout's newest weights", "65a800ea"
    ),
)


def thing_at(place: str) -> Any:
    """What lies at a place, a class in place of the Ray actor made of it; AttributeError where it is gone."""
    module, _, path = place.partition(":")
    owner = reduce(getattr, path.split(".")[:1], import_module(module))
    metadata = getattr(owner, "__ray_metadata__", None)
    return reduce(getattr, path.split(".")[1:], metadata.modified_class.__mro__[1] if metadata else owner)


def digest(place: str) -> str:
    """The first digits of the hash of the source at a place, blanks apart."""
    source = re.sub(r"\s+", " ", inspect.getsource(inspect.unwrap(thing_at(place))))
    return hashlib.sha256(source.encode()).hexdigest()[:8]


def changes() -> list[str]:
    """What is not as it was when the trainer was written."""
    lines = []
    for touch in TOUCHED:
        try:
            now = digest(touch.place)
        except (ImportError, AttributeError) as error:
            lines.append(f"{touch.place} is gone ({error}): {touch.why}")
            continue
        if now != touch.digest:
            lines.append(f"{touch.place} is other code now ({now}): {touch.why}")
    return lines


def test_verl_is_as_it_was_when_the_trainer_was_written() -> None:
    from verl import __version__

    changed = changes()
    assert not changed, f"verl {__version__}, the trainer was written for {VERSION}:\n  " + "\n  ".join(changed)


def test_a_change_and_a_loss_are_both_named(monkeypatch: Any) -> None:
    import sys

    module = sys.modules[__name__] if __name__ in sys.modules else None
    gone = Touch("verl.utils.model:no_such_function", "we call it", "00000000")
    other = Touch("verl.utils.model:load_valuehead_model", "we replace it", "00000000")
    monkeypatch.setitem(globals() if module is None else module.__dict__, "TOUCHED", (gone, other))
    first, second = changes()
    assert "no_such_function is gone" in first and "is other code now" in second


def test_the_platform_implements_everything_that_verl_asks_of_one() -> None:
    from plat_rl.verl.cpu.platform import CpuPlatform

    platform = CpuPlatform()
    assert platform.device_name == "cpu" and platform.communication_backend_name() == "gloo"
    available, total = platform.device_module.mem_get_info()
    assert 0 < available <= total


if __name__ == "__main__":
    for entry in TOUCHED:
        print(entry.place, digest(entry.place))
