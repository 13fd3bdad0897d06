"""Build the tags of a run in MLflow: its identity, its provenance, and its outcome."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from plat.store.run_directory.numerics import numerics_of_run
from plat.store.run_directory.types import is_time
from plat.words import usage
from plat.words.outcomes import ENDED_ON_REQUEST, is_failure, is_result

CODE_FACTS = ("commit", "dirty", "diff_sha256")  # of meta.json's `code`, as tags


def identity_tags(run_id: str, meta: Mapping[str, Any], files: Sequence[str], attempt: int) -> dict[str, str]:
    """Return the tags that identify a run: ids, axes, and the files and studies that asked for it.

    files    names of the experiment files, spelt by `clean_key`
    attempt  number of the attempt that made the result, else of the newest attempt, 0 before the first
    """
    axes = meta.get("axes", {})
    return {
        "plat.kind": "run",
        "plat.id": run_id,
        "plat.name": str(meta.get("name", run_id)),
        "plat.attempt": str(attempt),
        "plat.axes": json.dumps(axes, ensure_ascii=False),
        **{f"plat.axis.{axis}": text(value) for axis, value in axes.items()},
        **{f"plat.in.{file}": "1" for file in files},
        **{f"plat.study.{study}": ", ".join(trials) for study, trials in (meta.get("studies") or {}).items()},
    }


def code_tags(meta: Mapping[str, Any], attempts: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the provenance tags: commit, versions and plug-ins, host and hardware of the newest attempt, and numerics.

    attempts  content of each attempt.json, oldest first; the numerics come from all of them
    """
    attempt = attempts[-1] if attempts else {}
    code = meta.get("code") or {}
    tags = {f"plat.versions.{package}": str(number) for package, number in (code.get("versions") or {}).items()}
    tags |= {f"plat.code.{key}": text(code[key]) for key in CODE_FACTS if code.get(key) is not None}
    for plug_in in code.get("plug_ins") or ():
        tags[f"plat.plug_in.{plug_in['package']}"] = text(plug_in)
    if code.get("commit"):
        tags["mlflow.source.git.commit"] = str(code["commit"])
    hardware = attempt.get("hardware")
    if isinstance(hardware, Mapping):
        tags |= {f"plat.hardware.{key}": text(value) for key, value in flatten(hardware).items()}
    elif hardware:
        tags["plat.hardware"] = text(hardware)
    if computed := numerics_of_run(facts.get("numerics") or {} for facts in attempts):
        tags["plat.numerics"] = computed
    return tags | ({"plat.host": str(attempt["host"])} if attempt.get("host") else {})


def result_tags(meta: Mapping[str, Any], ended: Mapping[str, Any], facts: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the tags of the trainer, the identity scheme, the summary, and the outcome of a run.

    ended  content of result.json, or of the last attempt's outcome.json; empty while the run has not ended
    facts  values that the last attempt recorded at its start
    """
    tags = {
        "plat.trainer": f"{meta.get('trainer', '')} {meta.get('trainer_version', '')}".strip(),
        "plat.identity_scheme": str(meta.get("identity_scheme", 1)),  # scheme 1 did not record its number
    }
    summary = {**(facts or {}), **(ended.get("summary") or {})}
    tags |= {f"plat.summary.{key}": text(value) for key, value in summary.items()}
    outcome = str(ended.get("outcome", ""))
    if status_of(outcome) == "RUNNING":
        return tags
    tags["plat.outcome"] = outcome
    end = millis(ended.get("time"))
    if end is not None:
        tags["plat.ended"] = datetime.fromtimestamp(end // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    tags |= {f"{usage.TAG}{key}": text(value) for key, value in (ended.get("usage") or {}).items()}
    if ended.get("reason"):
        tags["plat.reason"] = str(ended["reason"])
    return tags


def status_of(outcome: str) -> str:
    """Return MLflow's status for an outcome; RUNNING for "" and for an interrupted run, which can be resumed."""
    if is_result(outcome):
        return "FINISHED"
    if is_failure(outcome):
        return "FAILED"
    return "KILLED" if outcome in ENDED_ON_REQUEST else "RUNNING"


# Convert keys, values and times of a run to the forms that MLflow accepts.

REFUSED = r"[^\w\-./ :]"  # characters in names of metrics
KEY_LENGTH, PARAM_LENGTH, TAG_LENGTH = 250, 6000, 5000  # MLflow's limits


def clean_key(name: str) -> str:
    """Return a name that MLflow accepts: a plain relative path of at most 250 characters.

    Replaces by `_` all characters except letters, digits, `_ - . / :` and spaces."""
    name = re.sub(REFUSED, "_", name)[:KEY_LENGTH]
    name = "/".join(part for part in name.split("/") if part not in ("", ".", "..")) or "_"
    return "_" + name[1:] if name.startswith("..") else name


def metric_key(name: str) -> str:
    """Return a metric's name as MLflow accepts it, one to one (`metric_name`): `pass@1` is stored as `pass_x40_1`.

    The end of a name that is still too long becomes a hash, from which nothing is read back.
    """
    plain = re.sub(REFUSED, "_", name)[:KEY_LENGTH]
    refused = REFUSED if clean_key(plain) == plain else r"[^\w\- :]"  # also what makes `a//b` or `..`
    key = re.sub(rf"{refused}|_(?=x[0-9A-F]+(?:_|{refused}))", lambda found: f"_x{ord(found[0]):X}_", name)
    return key if len(key) <= KEY_LENGTH else f"{key[: KEY_LENGTH - 17]}_{sha256(name.encode()).hexdigest()[:16]}"


def metric_name(key: str) -> str:
    """Return the name of a stored metric; that of a store of plat 0.4 is the key itself."""
    return re.sub(r"_x([0-9A-F]{1,5}|10[0-9A-F]{4})_", lambda found: chr(int(found[1], 16)), key)


def text(value: Any) -> str:
    """Return a config value as text: strings unchanged, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def cut(value: str, length: int) -> str:
    return value if len(value) <= length else value[: length - 1] + "…"


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested mappings as one mapping with dotted keys; lists and empty mappings are values."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = dict(value) if isinstance(value, Mapping) else value
    return flat


def millis(time: Any) -> int | None:
    """Convert seconds since 1970 to whole milliseconds; None if the value is not a valid time."""
    return round(time * 1000) if is_time(time) else None
