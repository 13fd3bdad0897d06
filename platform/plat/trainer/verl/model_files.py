"""The checkpoint that a run starts from, in the Hugging Face format that verl reads."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plat.trainer.verl.config import VerlRunConfig
from plat.trainer.verl.models import is_stand_in, paper_model


@dataclass(frozen=True)
class ModelFiles:
    """path: a folder, or a name on the Hugging Face hub. identity: what a run's attempts must have in common."""

    path: str
    identity: str
    name: str
    stand_in: bool
    parameters: int | None = None
    vocabulary: int | None = None

    def description(self) -> dict[str, Any]:
        """What result.json says of the model that really ran."""
        facts = {"parameters": self.parameters, "vocabulary": self.vocabulary}
        known = {name: value for name, value in facts.items() if value is not None}
        return {"model_really": self.name, "stand_in": self.stand_in} | known


def model_files(config: VerlRunConfig, cache: Path) -> ModelFiles:
    """The checkpoint of this config; a stand-in's base that is neither shipped nor in the cache is built first."""
    from plat.trainer.embedded.base_model.load import obtain
    from plat.trainer.embedded.base_model.recipe import checkpoint_hash

    if is_stand_in(config):
        base = obtain(config.model, cache)
        vocabulary = json.loads((base.folder / "config.json").read_text())["vocab_size"]
        name = f"stand-in for {config.model.paper_name}"
        return ModelFiles(str(base.folder), base.sha256, name, True, base.parameters, vocabulary)
    if config.model.path is not None:
        return ModelFiles(config.model.path, checkpoint_hash(Path(config.model.path)), config.model.path, False)
    model = paper_model(config)
    return ModelFiles(model.hub, model.hub, model.hub, False, int(model.billions * 1e9), model.vocabulary)
