"""Log-likelihoods of reasonings under prompts (Table 1, and the probe), computed by verl's actor workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from plat_rl.embedded.probe import ProbeResult, probe_result
from plat_rl.loop.proxy_scoring import mutual_information
from plat_rl.rl.config import PROBE_BLOCK, MIConfig
from plat_rl.verl.rollouts.play import Played
from plat_rl.verl.vision.pictures import Picture, Prompt, Tokens, blanked
from plat_rl.verl.vision.processor import VisionProcessor

Pair = tuple[Prompt, Tokens]  # a prompt, and a reasoning as its continuation
Pairs = Sequence[Pair]
ROWS = 4096  # most pairs in one request to the workers
FEATURES = 256_000_000  # most bytes of pictures' features in one request, if it has several pairs


def measure(
    batch: Played,
    config: MIConfig,
    sigmas: dict[str, float],
    rng: np.random.Generator,
    score_pairs: Callable[[Pairs], NDArray[np.float64]],
) -> dict[str, float]:
    """Return the `mi/` metrics (`plat_rl.loop.proxy_scoring`) of a batch before refills and filter.

    `score_pairs` returns log-likelihoods in nats; `mi/score_gap` is their largest difference per token from the
    rollout's. Updates `sigmas`. Returns {} if no scope can be measured.
    """
    gaps = []

    seen = batch.seen

    def score(rows: NDArray[np.int64], prompts: list[Prompt]) -> torch.Tensor:
        pairs = [(prompt, batch.reasonings[row]) for row in rows for prompt in prompts]
        matrix = score_pairs(pairs).reshape(len(rows), len(prompts))
        number = {prompt: index for index, prompt in enumerate(prompts)}
        if all(seen[row] in number for row in rows):  # and not blank ones
            matched = matrix[np.arange(len(rows)), [number[seen[row]] for row in rows]]
            gaps.append(float(np.max(np.abs(matched - batch.log_probs[rows]) / batch.reasoning_length[rows])))
        return torch.from_numpy(matrix)

    blank = blanked if any(batch.pictures) else None
    metrics = mutual_information(batch, seen, config, sigmas, rng, score, blank)
    return metrics | ({"mi/score_gap": max(gaps)} if metrics else {})


def block_pairs(played: Played) -> list[Pair]:
    """Return each reasoning of a probe with the PROBE_BLOCK prompts of its block, in order of the rows."""
    seen = played.seen
    return [
        (seen[row - row % PROBE_BLOCK + other], played.reasonings[row])
        for row in range(len(seen))
        for other in range(PROBE_BLOCK)
    ]


def block_result(played: Played, scores: NDArray[np.float64]) -> ProbeResult:
    """Return the probe's result from the log-likelihoods of `block_pairs`.

    The null, an untrained model, is not measured: it would need a second model of the same size.
    """
    matrix = torch.from_numpy(scores.reshape(-1, PROBE_BLOCK))
    return probe_result(matrix, played.reasoning_length, played.reasoning_level)


def log_likelihoods(
    workers: Any, pairs: Pairs, temperature: float, processes: int, vision: VisionProcessor | None = None
) -> NDArray[np.float64]:
    """Return the summed log-likelihood, in nats, of the reasoning's tokens after the prompt, for each pair.

    workers    verl's worker group of the actor
    pairs      (prompt, reasoning); each prompt with its own pictures
    processes  number of data-parallel processes; requests are padded to a multiple of it
    vision     of a model that sees pictures

    An empty reasoning has log-likelihood 0. Equal pairs are scored once.
    """
    distinct = [pair for pair in dict.fromkeys(pairs) if pair[1]]
    features = _Features(vision) if vision else None
    scored: dict[Pair, float] = {}
    for part in _requests(distinct, features):
        filled = part + part[:1] * (-len(part) % processes)
        output = workers.compute_log_prob(_rows(filled, temperature, features))
        for pair, logs in zip(part, output["log_probs"].unbind(), strict=False):
            length = len(pair[1])
            # verl's log-prob at position t belongs to token t + 1.
            scored[pair] = float(logs[-length - 1 : -1].double().sum())
    return np.array([scored.get(pair, 0.0) for pair in pairs])


class _Features:
    """The features of pictures, each computed once."""

    def __init__(self, vision: VisionProcessor) -> None:
        self.vision = vision
        self._known: dict[Picture, tuple[torch.Tensor, torch.Tensor]] = {}

    def bytes_of(self, prompt: Prompt) -> int:
        return self.vision.feature_bytes(picture.pixels for picture in prompt.pictures)

    def inputs(self, prompt: Prompt) -> dict[str, torch.Tensor]:
        """Return what the model needs of a prompt's pictures; {} if it has none."""
        for picture in prompt.pictures:
            if picture not in self._known:
                self._known[picture] = self.vision.features([picture.pixels])
        parts = [self._known[picture] for picture in prompt.pictures]
        if not parts:
            return {}
        pixels, grids = (torch.cat(own) for own in zip(*parts, strict=True))
        return {"pixel_values": pixels, "image_grid_thw": grids}

    def positions(self, ids: torch.Tensor, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return the positions (4, T) of ids (T,): of the text, then time, row and column, as verl has them."""
        positions = self.vision.positions(ids[None], inputs.get("image_grid_thw"))[:, 0]
        return torch.cat((torch.arange(len(ids))[None], positions))


def _requests(pairs: Pairs, features: _Features | None) -> Iterator[list[Pair]]:
    """Yield the pairs in parts of at most ROWS, and of at most FEATURES bytes unless a single pair has more."""
    part: list[Pair] = []
    filled = 0
    for pair in pairs:
        size = features.bytes_of(pair[0]) if features else 0
        if part and (len(part) == ROWS or filled + size > FEATURES):
            yield part
            part, filled = [], 0
        part.append(pair)
        filled += size
    if part:
        yield part


def _rows(pairs: Pairs, temperature: float, features: _Features | None) -> Any:
    """Return the pairs as a batch without padding, in the format of verl's workers."""
    from verl.utils import tensordict_utils as tu

    def nested(rows: list[torch.Tensor]) -> torch.Tensor:
        return torch.nested.as_nested_tensor(rows, layout=torch.jagged)

    prompts = [torch.tensor(prompt.tokens) for prompt, _ in pairs]
    responses = [torch.tensor(reasoning) for _, reasoning in pairs]
    whole = [torch.cat(parts) for parts in zip(prompts, responses, strict=True)]
    mask = nested([torch.ones_like(response) for response in responses])
    fields: dict[str, Any] = {
        "input_ids": nested(whole),
        "position_ids": nested([torch.arange(len(ids)) for ids in whole]),
        "prompts": nested(prompts),
        "responses": nested(responses),
        "response_mask": mask,
        "loss_mask": mask,
    }
    if features:
        inputs = [features.inputs(prompt) for prompt, _ in pairs]
        positions = [features.positions(ids, own) for ids, own in zip(whole, inputs, strict=True)]
        fields["position_ids"] = tu.nested_tensor_from_tensor_list(positions)
        fields["multi_modal_inputs"] = inputs
    return tu.get_tensordict(fields, {"calculate_entropy": False, "compute_loss": False, "temperature": temperature})
