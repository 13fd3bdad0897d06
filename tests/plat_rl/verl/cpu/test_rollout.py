"""The rollout engine `hf` on a GPU: where its servers run, and what is sent to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore")  # what verl imports warns of its own future


class Worker:
    """A training worker on the node "n1" with the GPU "GPU-abc", as a handle of Ray answers for it."""

    class __ray_call__:
        @staticmethod
        async def remote(function: Callable[[Any], Any]) -> Any:
            return function(None)


class Context:
    """What Ray says in the worker's process."""

    def get_node_id(self) -> str:
        return "0" * 56

    def get_accelerator_ids(self) -> dict[str, list[str]]:
        return {"GPU": ["GPU-abc"], "TPU": []}


def test_a_server_shares_the_node_and_the_gpu_of_its_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    from plat_rl.verl.cpu.cpu_rollout import beside

    monkeypatch.setattr(ray, "get_runtime_context", Context)
    options = asyncio.run(beside(Worker()))
    assert options["runtime_env"]["env_vars"] == {
        "CUDA_VISIBLE_DEVICES": "GPU-abc",
        "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "1",  # or Ray hides the GPU from an actor that reserves none
    }
    assert options["scheduling_strategy"].node_id == "0" * 56 and options["scheduling_strategy"].soft is False
    assert not {"num_gpus", "num_cpus"} & options.keys(), "training workers hold all of them"


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_only_on_a_gpu_a_server_asks_where_its_worker_is(monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    import ray

    from plat_rl.verl.cpu import cpu_rollout

    started: list[Any] = []

    class Actor:
        class wake_up:
            @staticmethod
            async def remote() -> None: ...

    class Remote:
        def options(self, **options: Any) -> Remote:
            started.append(options)
            return self

        def remote(self, *arguments: Any) -> Actor:
            started.append(arguments)
            return Actor()

    monkeypatch.setattr(ray, "get_runtime_context", Context)
    monkeypatch.setattr(ray, "remote", lambda kind: Remote())
    monkeypatch.setattr(cpu_rollout, "get_platform", lambda: SimpleNamespace(device_name=device))
    replica = object.__new__(cpu_rollout.HFReplica)
    replica.replica_rank, replica.workers = 3, [Worker()]
    replica.model_config = SimpleNamespace(path="folder")
    replica.config = SimpleNamespace(dtype="bfloat16", response_length=7, seed=5, max_num_seqs=1)
    asyncio.run(replica.launch_servers())
    options, arguments = started
    assert arguments == ("folder", "bfloat16", 7, 5, device)
    assert ("runtime_env" in options) == (device == "cuda") and options["num_cpus"] == 0


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_weights_are_sent_as_copies_in_the_type_of_the_rollout(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    import ray

    from plat_rl.verl.cpu.cpu_rollout import HFAdapter

    sent: list[Any] = []

    class Server:
        class load:
            @staticmethod
            async def remote(*arguments: Any) -> None:
                sent.extend(arguments)

    monkeypatch.setattr(ray, "get_actor", {"plat_hf_server_0": Server}.__getitem__)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 0)
    adapter = object.__new__(HFAdapter)
    adapter.config = SimpleNamespace(dtype=name)
    weight, count = torch.tensor([1.00390625 + 2**-12, -3.0], requires_grad=True), torch.tensor([2**20 + 1])
    asyncio.run(adapter.update_weights(iter([("weight", weight), ("count", count)]), global_steps=4))
    weights, step = sent
    assert step == 4 and torch.equal(weights["count"], count)
    assert weights["weight"].dtype == getattr(torch, name) and torch.equal(
        weights["weight"], weight.to(getattr(torch, name))
    )
    with torch.no_grad():
        weight.zero_()
    assert weights["weight"].abs().min() > 0, "training goes on while they are sent"
