"""Text that is made safe to display."""

from __future__ import annotations

import pytest

from plat.characters import masked


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("python t.py --api-key abcdefgh12 --lr 1", "python t.py --api-key *** --lr 1"),
        ("WANDB_API_KEY=abcdefgh12 python t.py", "WANDB_API_KEY=*** python t.py"),
        ("python t.py --token=hf_abcdefghijklmnop", "python t.py --token=***"),
        ("curl -H sk-abcdefghijklmnop", "curl -H sk-***"),
        ('{"password": "abcdefgh12"}', '{"password": "***"}'),
        ("python t.py --token {token} --tokens 12345678 --max_tokens 100000000", None),
        ("python train.py --lr 0.1 --secret x", None),
    ],
)
def test_what_looks_like_a_secret_is_masked(text, shown):
    assert masked(text) == (shown or text)
