"""Holds the artifacts of done runs against their hashes, file by file (`plat doctor --deep`). Changes nothing.

Only the artifacts of the attempt that made a run's result count, and only those that lie in this home: bundles bring
the hashes of artifacts, not their files, and whoever needs the space may remove them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from plat.store.home import Home
from plat.store.run_directory.artifact import FACT, artifact_folders, artifacts_of, damage
from plat.store.run_directory.files import read_result
from plat.store.run_directory.paths import AttemptPaths


@dataclass
class ArtifactCheck:
    """What a check found.

    artifacts, bytes   how many are whole, and their size
    damaged            run id -> what is wrong with its first damaged artifact
    absent             ids of runs whose result names an artifact that is not here
    """

    artifacts: int = 0
    bytes: int = 0
    damaged: dict[str, str] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)


def check_artifacts(home: Home) -> ArtifactCheck:
    """Hash every file of every artifact of the done runs of a home."""
    check = ArtifactCheck()
    for run in home.all_runs():
        result = read_result(run)
        if result is None or not isinstance(result.get("attempt"), int):
            continue
        attempt = run.attempt(result["attempt"])
        recorded = _recorded(result)
        folders = artifact_folders(attempt)
        problems = [f"artifact {name}: {problem}" for name in folders if (problem := _problem(attempt, name, recorded))]
        if problems:
            check.damaged[run.id] = problems[0]
            continue
        kept = artifacts_of(attempt).values()
        check.artifacts += len(kept)
        check.bytes += sum(artifact.bytes for artifact in kept)
        if recorded.keys() - set(folders):
            check.absent.append(run.id)
    return check


def _recorded(result: Mapping[str, Any]) -> dict[str, Any]:
    """Name -> hash of each artifact that a result names."""
    summary = result.get("summary") or {}
    return {name.removeprefix(FACT): value for name, value in summary.items() if name.startswith(FACT)}


def _problem(attempt: AttemptPaths, name: str, recorded: Mapping[str, Any]) -> str:
    """What is wrong with one artifact, in words; "" when nothing is."""
    problem = damage(attempt.artifacts / name)
    if problem:
        return problem
    differs = name in recorded and artifacts_of(attempt)[name].sha256 != recorded[name]
    return "it is not the one whose hash the result names" if differs else ""
