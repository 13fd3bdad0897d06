"""The rollout engine `hf` for verl: a server process with a transformers model, and the adapters that verl expects.

verl's training workers give new weights to an `HFAdapter` in their own process, which passes them to the server of
their replica. Agent loops request responses one by one; the server collects requests and answers them in batches.
On a GPU, a server shares that of its training worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import accumulate
from typing import Any

import ray
import torch
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from torch import Tensor
from verl.plugin.platform.platform_manager import get_platform
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput

from plat_rl.verl.cpu.generation import Request, Response, generate
from plat_rl.verl.vision.processor import load_processor

# Seconds without a new request after which a batch is answered. On a GPU a small batch takes as long as a large one.
WAIT = {"cpu": 0.02, "cuda": 0.04}
ROWS = 256  # at most this many requests in a batch
FEATURES = 256_000_000  # bytes of the pictures' features in a batch of several requests, at most


class HFServer:
    """A Ray actor that generates responses on the device "cpu" or "cuda".

    It has the weights of the checkpoint at `path` until the first `load`.
    """

    def __init__(self, path: str, dtype: str, response_length: int, seed: int, device: str) -> None:
        from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, AutoTokenizer

        torch.set_num_threads(1)
        kind = getattr(torch, dtype)
        self.vision = load_processor(path)
        loader: Any = AutoModelForImageTextToText if self.vision else AutoModelForCausalLM
        model: Any = loader.from_pretrained(path, dtype=kind, attn_implementation="sdpa")
        self.model = model.to(device).eval()
        self.wait = WAIT[device]
        tokenizer = AutoTokenizer.from_pretrained(path)
        configured = self.model.generation_config.eos_token_id
        ends = configured if isinstance(configured, list) else [configured]
        self.stops = frozenset(int(end) for end in [*ends, tokenizer.eos_token_id] if end is not None)
        self.pad = int(tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id)
        self.response_length, self.seed = response_length, seed
        self.step: int | None = 0
        self.waiting: list[tuple[Request, asyncio.Future[Response]]] = []
        self.serving: asyncio.Task[None] | None = None

    async def load(self, weights: dict[str, Tensor], step: int | None) -> None:
        """Load the weights of step `step`. Raises ValueError if names do not fit, but loads those that fit."""
        missing, unknown = self.model.load_state_dict(weights, strict=False)
        is_tied = self.model.get_output_embeddings().weight is self.model.get_input_embeddings().weight
        tied = {"lm_head.weight"} if is_tied else set()
        if unknown or set(missing) - tied:
            raise ValueError(f"weights do not fit the model: missing {missing}, unknown {unknown}")
        self.step = step

    async def generate(
        self,
        request_id: str,
        prompt_ids: list[int],
        sampling_params: dict[str, Any],
        image_data: list[Any] | None = None,
        **unused: Any,
    ) -> TokenOutput:
        """Return one response. Only temperature, seed, max_tokens and stop_token_ids of the parameters are used.

        image_data   images of Pillow, in the order of their places in the prompt

        The stop_token_ids also end all later responses of this server. The stop_reason is always "completed".
        """
        self.stops |= set(sampling_params.get("stop_token_ids") or ())
        request = Request(
            prompt_ids,
            int(sampling_params.get("seed", self.seed)),
            float(sampling_params.get("temperature", 1.0)),
            int(sampling_params.get("max_tokens", self.response_length)),
            tuple(image_data or ()),
        )
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self.waiting.append((request, answer))
        if self.serving is None:
            self.serving = asyncio.create_task(self._serve())
        response = await answer
        return TokenOutput(
            token_ids=response.tokens,
            log_probs=response.log_probs,
            stop_reason="completed",
            extra_fields={"global_steps": self.step},
        )

    async def _serve(self) -> None:
        """Answer all waiting requests in batches, as soon as no new request has come for `wait` seconds."""
        try:
            while self.waiting:
                count = 0
                while count != len(self.waiting):
                    count = len(self.waiting)
                    await asyncio.sleep(self.wait)
                count = self._fitting()
                batch, self.waiting = self.waiting[:count], self.waiting[count:]
                requests = [request for request, _ in batch]
                try:
                    responses = await asyncio.to_thread(
                        generate, self.model, requests, self.stops, self.pad, self.vision
                    )
                except Exception as error:
                    for _, answer in batch:
                        answer.set_exception(error)
                    continue
                for (_, answer), response in zip(batch, responses, strict=True):
                    answer.set_result(response)
        finally:
            self.serving = None

    def _fitting(self) -> int:
        """Return how many waiting requests make the next batch: at most ROWS, with FEATURES bytes of features."""
        if self.vision is None:
            return ROWS
        sizes = accumulate(self.vision.feature_bytes(request.images) for request, _ in self.waiting[:ROWS])
        return max(1, sum(size <= FEATURES for size in sizes))

    async def sleep(self) -> None:
        """Give the GPU's memory back that the last batch needed; the weights stay there. Do nothing on the CPU."""
        torch.cuda.empty_cache()

    # Methods of verl's servers that do nothing here: weights stay in memory, and waiting requests are answered.
    async def wake_up(self) -> None: ...
    async def abort_all_requests(self, reject_request: bool = False) -> None: ...
    async def resume_generation(self) -> None: ...
    async def clear_kv_cache(self) -> None: ...
    async def start_profile(self, **options: Any) -> None: ...
    async def stop_profile(self) -> None: ...


def server_name(replica: int) -> str:
    """Return the name of a replica's server among the actors of a run."""
    return f"plat_hf_server_{replica}"


class HFAdapter(BaseRollout):  # type: ignore[misc]
    """Part of a training worker: takes the weights that verl gathers and sends them to the server of the same rank."""

    # Methods of verl's rollouts that do nothing here: no memory is released, so none is taken again.
    async def resume(self, tags: list[str]) -> None: ...

    async def release(self) -> None: ...

    async def update_weights(
        self, weights: Iterable[tuple[str, Tensor]], global_steps: int | None = None, **unused: Any
    ) -> None:
        dtype = getattr(torch, self.config.dtype)  # the server's: half of float32 is less to send
        gathered = {name: _copied(tensor, dtype) for name, tensor in weights}  # all ranks gather together
        server = ray.get_actor(server_name(torch.distributed.get_rank()))
        await server.load.remote(gathered, global_steps)


def _copied(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a copy in the memory of the CPU, of this dtype unless it has whole numbers."""
    return tensor.detach().to("cpu", dtype if tensor.is_floating_point() else tensor.dtype, copy=True)


def _node_and_gpu(worker: Any) -> tuple[str, str]:
    """Return the node of this process and its GPU, as Ray assigned it; a training worker calls it with itself."""
    context = ray.get_runtime_context()
    return context.get_node_id(), context.get_accelerator_ids()["GPU"][0]


async def beside(worker: Any) -> dict[str, Any]:
    """Return the options of an actor that shares the node and the GPU of a training worker.

    Training workers hold all GPUs that Ray has, so the actor asks Ray for none; Ray must then not hide the GPU from it.
    """
    node, gpu = await worker.__ray_call__.remote(_node_and_gpu)
    visible = {"CUDA_VISIBLE_DEVICES": gpu, "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "1"}
    return {
        "runtime_env": {"env_vars": visible},
        "scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False),
    }


class HFReplica(RolloutReplica):  # type: ignore[misc]
    """Start one server for each training worker."""

    async def launch_servers(self) -> None:
        device = get_platform().device_name
        place = await beside(self.workers[0]) if device == "cuda" else {}
        server = ray.remote(HFServer).options(
            name=server_name(self.replica_rank), num_cpus=0, max_concurrency=self.max_concurrency, **place
        )
        config = self.config
        actor = server.remote(self.model_config.path, config.dtype, config.response_length, config.seed, device)
        await actor.wake_up.remote()  # wait until the model is loaded
        self.servers = [actor]
        self._server_handle, self._server_address = actor, server_name(self.replica_rank)
