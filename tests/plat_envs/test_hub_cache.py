"""Models and datasets of the hub, as a plan names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from plat_envs.data import dataset_need, model_need


def test_what_is_in_the_cache_is_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HUB_CACHE", "HF_DATASETS_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    model, dataset = model_need("Qwen/Qwen2.5-3B", 6.2), dataset_need("hotpotqa/hotpot_qa")
    assert model.absent and model.fix == "hf download Qwen/Qwen2.5-3B" and "6 GB" in model.what
    assert dataset.absent and "task.env.data=file" in dataset.fix
    (tmp_path / "hub" / "models--Qwen--Qwen2.5-3B").mkdir(parents=True)
    (tmp_path / "datasets" / "hotpotqa___hotpot_qa").mkdir(parents=True)
    assert not model_need("Qwen/Qwen2.5-3B", 6.2).absent and not dataset_need("hotpotqa/hotpot_qa").absent
    assert dataset_need("other/hotpot_qa").absent
