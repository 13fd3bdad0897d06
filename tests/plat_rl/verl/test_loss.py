"""The policy's loss in verl's workers is verl's `ppo_loss`, term by term, and its tokens can have weights."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore")  # what verl imports warns of its own future

LENGTHS = [(3, 5), (2, 7), (4, 1), (3, 4)]  # prompt and response tokens of each sequence
MODES = ("token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm")


def nested(rows: list[torch.Tensor]) -> torch.Tensor:
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


def batch(trajectories: int, weights: list[torch.Tensor] | None = None) -> tuple[dict[str, Any], Any]:
    """The model's output and the rows of a mini-batch, from fixed random numbers."""
    from verl.utils import tensordict_utils as tu

    from plat_rl.verl.update.loss import WEIGHT

    random = torch.Generator().manual_seed(1)

    def drawn(lengths: list[int]) -> torch.Tensor:
        return nested([torch.randn(length, generator=random) for length in lengths])

    whole, said = [sum(pair) for pair in LENGTHS], [response for _, response in LENGTHS]
    masks = [torch.ones(length, dtype=torch.int64) for length in said]
    masks[1][2:4] = 0  # an observation
    output = {"log_probs": drawn(whole), "entropy": drawn(whole)}
    rows = {
        "prompts": nested([torch.zeros(prompt, dtype=torch.int64) for prompt, _ in LENGTHS]),
        "responses": nested([torch.zeros(length, dtype=torch.int64) for length in said]),
        "input_ids": nested([torch.zeros(length, dtype=torch.int64) for length in whole]),
        "response_mask": nested(masks),
        **{name: drawn(said) for name in ("old_log_probs", "advantages", "ref_log_prob")},
    }
    if weights is not None:
        rows[WEIGHT] = nested(weights)
    tokens = int(sum(mask.sum() for mask in masks))
    return output, tu.get_tensordict(
        rows, {"dp_size": 1, "batch_num_tokens": tokens, "global_batch_size": trajectories, "temperature": 1.0}
    )


def actor_config(mode: str) -> Any:
    from verl.workers.config import ActorConfig

    return ActorConfig(
        strategy="fsdp2", rollout_n=1, use_dynamic_bsz=True, loss_agg_mode=mode, loss_scale_factor=24,
        entropy_coeff=0.01, use_kl_loss=True, kl_loss_coef=0.2, kl_loss_type="low_var_kl",
    )  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
def test_the_terms_add_up_to_verls_loss(mode: str) -> None:
    from verl.utils import tensordict_utils as tu
    from verl.workers.utils.losses import ppo_loss

    from plat_rl.verl.update.loss import SCALE, loss_terms, scaled_policy_loss

    expected, theirs = ppo_loss(actor_config(mode), *batch(4))
    terms, ours = loss_terms(actor_config(mode), *batch(4))
    assert terms.keys() == {"task", "entropy", "kl"}
    assert float(sum(terms.values())) == pytest.approx(float(expected), rel=1e-6)
    for name in ("actor/pg_loss", "actor/pg_clipfrac", "actor/ppo_kl", "actor/pg_clipfrac_lower"):
        assert ours[name].aggregate() == pytest.approx(theirs[name].aggregate(), rel=1e-6), name
    output, data = batch(4)
    tu.assign_non_tensor(data, **{SCALE: 0.5})
    assert float(scaled_policy_loss(actor_config(mode), output, data)[0]) == pytest.approx(0.5 * float(expected))


def test_only_the_term_that_is_asked_for_counts() -> None:
    from verl.utils import tensordict_utils as tu

    from plat_rl.verl.update.loss import TERM, loss_terms, scaled_policy_loss

    terms, _ = loss_terms(actor_config("token-mean"), *batch(4))
    for name, term in terms.items():
        output, data = batch(4)
        tu.assign_non_tensor(data, **{TERM: name})
        assert float(scaled_policy_loss(actor_config("token-mean"), output, data)[0]) == pytest.approx(float(term))


def test_sequences_of_one_trajectory_count_as_one() -> None:
    """The first two sequences are one trajectory of 5 + 5 response tokens, the other two of 1 + 4."""
    from plat_rl.verl.update.loss import loss_terms

    weights = [torch.full((length,), 1 / total) for (_, length), total in zip(LENGTHS, (10, 10, 5, 5), strict=True)]
    terms, _ = loss_terms(actor_config("seq-mean-token-mean"), *batch(2, weights))
    sums = []
    for number in range(len(LENGTHS)):
        output, data = batch(4)
        data["response_mask"] = nested([row * (at == number) for at, row in enumerate(data["response_mask"].unbind())])
        own, _ = loss_terms(actor_config("seq-mean-token-sum"), output, data)
        sums.append(SimpleNamespace(**{name: 4 * float(term) for name, term in own.items()}))
    for name, term in terms.items():
        first, second, third, fourth = (getattr(total, name) for total in sums)
        expected = ((first + second) / 10 + (third + fourth) / 5) / 2
        assert float(term) == pytest.approx(expected, rel=1e-5), name
