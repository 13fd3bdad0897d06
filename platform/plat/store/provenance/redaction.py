"""Text without its secrets: lines that may hold one are left out, and the place says so.

The rules are detect-secrets', and a few for what these miss. They err on the side of leaving out: a line with the hash
of a file goes, too. Private keys go with all their lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

LEFT_OUT = "<left out: this line may hold a secret>"
UNCHECKED = "<left out: detect-secrets is not installed, so nobody can say whether this holds secrets>\n"
NOT_SECRET = ("Public IP (ipv4)",)  # detect-secrets' types that are none here

_MORE_PATTERNS = (
    re.compile(r"\b(?:ghp|gho|ghu|ghs|ghr|github_pat|glpat|hf|sk|pk|xox[abprs])[-_][A-Za-z0-9_-]{16,}"),
    re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+"),
    re.compile(r"\bAIza[\w-]{30,}"),
    re.compile(r"\bnpm_[A-Za-z0-9]{30,}"),
    re.compile(r"\bpypi-[\w-]{16,}"),
    re.compile(r"(?i)\bbearer\s+(?=\S*\d)[\w.~+/=-]{12,}"),
    re.compile(r"://[^/\s:@]+:[^/\s@]+@"),  # a password in an address
    re.compile(r"://(?!git@)[^/\s:@]{8,}@"),  # a token in an address
    re.compile(r"(?i)https?://[^\s\"']*hook[^\s\"']*/[\w-]{8,}"),  # whoever knows a webhook's address may use it
    re.compile(r"(?i)\b(?:\w*AccountKey|\w*AccessKey|AccountSecret|sig)=[\w%+/=-]{16,}"),
    re.compile(r"(?i)(?<!\w)[\w-]*key[\"']?\s*[:=]\s*(?:\"[^\"\s]{8,}\"|'[^'\s]{8,}')"),
    re.compile(
        r"(?i)[\w-]*(?:passw(?:or)?d|passphrase|secret|token|api[_-]?key|access[_-]?key|credential)s?"
        r"[\"']?\s*[:=]\s*(?:\"[^\"\n]{6,}\"|'[^'\n]{6,}'|(?=\S*\d)[^\s\"',;(){}\[\]]{8,})"
    ),
)
_KEY_BEGINS = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----")
_KEY_ENDS = re.compile(r"-----END [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----")

Detector = Callable[[str], bool]


def without_secrets(diff: str) -> str:
    """A diff in which every line that may hold a secret is replaced by LEFT_OUT, behind its mark (+, - or a space)."""
    if not diff:
        return ""
    try:
        detectors = _detectors()
    except ImportError:
        return UNCHECKED
    lines, in_key = [], False
    for line in diff.splitlines(keepends=True):
        in_key = in_key or _KEY_BEGINS.search(line) is not None
        if in_key or any(holds_secret(line) for holds_secret in detectors):
            in_key = in_key and _KEY_ENDS.search(line) is None
            line = (line[0] if line[0] in "+- " else "") + LEFT_OUT + "\n"
        lines.append(line)
    return "".join(lines)


@lru_cache(maxsize=1)
def _detectors() -> tuple[Detector, ...]:
    """One predicate of a line for each rule. Importing detect-secrets takes .15 s, so only a diff leads here."""
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class

    kinds: dict[str, Any] = get_mapping_from_secret_type_to_class()
    plugins = [kind() for name, kind in kinds.items() if name not in NOT_SECRET]
    ours = [lambda line, pattern=pattern: pattern.search(line) is not None for pattern in _MORE_PATTERNS]
    return (*ours, *(_predicate(plugin) for plugin in plugins))


def _predicate(plugin: Any) -> Detector:
    """Whether a detect-secrets plug-in finds something; a random-looking string counts above the plug-in's limit."""
    limit = getattr(plugin, "entropy_limit", None)

    def holds_secret(line: str) -> bool:
        values: Iterable[str] = plugin.analyze_string(line)
        return any(limit is None or plugin.calculate_shannon_entropy(value) > limit for value in values)

    return holds_secret
