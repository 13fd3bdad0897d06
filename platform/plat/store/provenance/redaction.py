"""Redact a diff: replace each line that may hold a secret, and all lines of private keys, by a marker.

The rules are those of detect-secrets, and one regular expression for secrets that they miss. In doubt a line is
replaced, for example one with the hash of a file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from plat.store.provenance.multiline_secrets import value_lines

LEFT_OUT = "<left out: this line may hold a secret>"
UNCHECKED = "<left out: detect-secrets is not installed, so it is unknown whether this holds secrets>\n"
NOT_SECRET = ("Public IP (ipv4)",)  # types of detect-secrets that are ignored

_TOKENS = (  # tokens, by the prefixes of their issuers
    r"(?:ghp|gho|ghu|ghs|ghr|github_pat|glpat|hf|sk|pk|xox[abprs]|xapp|gsk|xai|dckr_pat|dop_v1|r8|shp(?:at|ca|pa|ss)"
    r"|lin_api|secret|ntn|fm[12]|FlyV1|HRKU|pul|tskey|npm|pypi|AGE-SECRET-KEY|GR1348941)[-_ ]?[A-Za-z0-9_-]{16,}",
    r"dapi[0-9a-f]{30,}",
    r"(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+",
    r"AIza[\w-]{30,}",
    r"ya29\.[\w-]{16,}",
    r"1//0[\w-]{16,}",
    r"hv[sb]\.[\w-]{16,}",
    r"\w{8,}\.atlasv1\.\w{16,}",
    r"ATATT3[\w-]{16,}",
    r"SG\.[\w-]{16,}\.[\w-]{16,}",
    r"key-[0-9a-f]{24,}",
    r"\d{8,10}:AA[\w-]{30,}",
    r"pat[A-Za-z0-9]{14}\.[0-9a-f]{32,}",
    r"(?:sb[ps]|figd|gldt|sq0[a-z]{3})[-_][\w-]{16,}",
    r"dp\.(?:pt|st|ct|sa|scim|audit)\.\w{16,}",
)
_RANDOM = (  # unquoted: 32 or more characters of hex, or of base64 with lower case, upper case and a digit
    r"(?<![\w/.-])(?:AC|SK|0x)?[0-9a-f]{32,}(?![\w/.-])",
    r"\$(?:apr1|1|2[aby]|5|6|y|argon2\w*)\$\S{8,}",  # hashes of passwords
    r"(?<![\w/.+-])(?=[A-Za-z+/=]*\d)(?=[a-z0-9+/=]*[A-Z])(?=[A-Z0-9+/=]*[a-z])[A-Za-z0-9+/]{32,}={0,2}(?![\w/.-])",
    r"(?<![\w/.])(?=\w*\d)[A-Za-z0-9]{20,}_[A-Za-z0-9]{16,}(?![\w/.-])",
)
_PLACES = (  # text in front of a secret
    r"(?i:authorization[\"']?\s*[:=]\s*[\"']?\w+\s+[\w.~+/=-]{6,})",
    r"(?i:\b(?:bearer|basic)\s+(?=\S*\d|\S{20,})[\w.~+/=-]{12,})",
    r"(?i:\bset-cookie:|\bcookie:\s*\S+=)",
    r"(?i:X-Amz-(?:Signature|Credential|Security-Token)=)",
    r"(?i:\bcurl\b.*\s(?:-u|--user)[\s=]*[^\s:]+:\S+)",
    r"(?i:\b(?:machine\s+\S+\s+)?login\s+\S+\s+password\s+\S+)",
    r"(?i:^[+\- ]?\s*(?:\w+_)?(?:password|passwd|passphrase|pass|pwd)\s*:\s+"
    r"[\"']?[^\s\"'(){}\[\],|]{6,}[\"']?\s*$)",
    r"\b(?:\w*_)?(?:PASSWORD|PASSWD|PASS|PWD|PGPASSWORD)=(?![$\s(])\S+",
    r"\b(?:\w*_)?(?:API_KEY|API_TOKEN|SECRET_KEY|ACCESS_TOKEN)=(?![$\s(])\S{8,}",
    r"(?i:\b(?:password|passwd|passphrase|pwd)[\"']?\s*[:=]\s*(?:\"[^\"\n]{3,}\"|'[^'\n]{3,}'))",
    r"://[^/\s:@\"']*:[^/\s@\"']+@",  # a password in an address
    r"://(?!git@)[^/\s:@]{8,}@",  # a token in an address
    r"(?i:https?://[^\s\"']*hook[^\s\"']*/[\w-]{8,})",  # the address of a webhook is enough to use it
    r"(?i:\b(?:\w*AccountKey|\w*AccessKey|AccountSecret|sig)=[\w%+/=-]{16,})",
    r"(?i:(?<!\w)[\w-]*key[\"']?\s*[:=]\s*(?:\"[^\"\s]{8,}\"|'[^'\s]{8,}'))",
    r"(?i:[\w-]*(?:passw(?:or)?d|passphrase|secret|token|api[_-]?key|access[_-]?key|credential)s?"
    r"[\"']?\s*[:=]\s*(?:\"[^\"\n]{6,}\"|'[^'\n]{6,}'|(?=\S*\d)[^\s\"',;(){}\[\]]{8,}))",
)
_LITERAL = r"[rbfu]{0,2}(?:\"[^\"\n]{3,}\"|'[^'\n]{3,}')"
_WORDS = r"(?:passw(?:or)?d|passphrase|passwort|kennwort|mot_de_passe|contrasena|pwd|psk|secret|api[_-]?key)"
_FORMS = (  # a secret as the value of a name, of an option or of a command
    rf"(?i:\b\w*(?:{_WORDS}|(?<![a-z])(?:pass|pin|totp|token))s?[\"']?\s*[:=]\s*{_LITERAL})",
    r"(?i:\b(?:pin|totp)\s*[:=]\s*\d{4,})",
    rf"(?i:[\"']-{{0,2}}[\w-]*(?:{_WORDS}|token)[\"']\s*,\s*[^)\n]*{_LITERAL})",
    rf"(?i:\w*auth\s*=?\s*\(\s*{_LITERAL}\s*,\s*{_LITERAL})",
    rf"(?i:\b{_WORDS}=(?=\S*\d)[^\s\"',;(){{}}]{{4,}})",
    rf"(?i:--?\w*(?:{_WORDS}|token)[ =][^\s\"'$<-][^\s\"']{{3,}})",
    rf"(?i:\b{_WORDS}\s+(?:is|ist)\s+\S{{4,}})",
    r"\bsshpass\s+-p\s*\S+",
    r"\b(?:mysql|mysqldump|mariadb)\b.*\s-p\S+",
    r"\bredis-cli\b.*\s-a\s+\S+",
    r"\b(?:docker|podman|helm)\b.*\blogin\b.*\s(?:-p|--password)[\s=]+\S+",
    r"^[+\- ]?[\w.*-]+:(?:\d{2,5}|\*):[\w*-]+:[\w*-]+:\S+\s*$",  # .pgpass
    r"otpauth://\S*secret=",
)
_SECRET = re.compile("|".join((*(rf"(?<![A-Za-z0-9]){token}" for token in _TOKENS), *_RANDOM, *_PLACES, *_FORMS)))
_KEY_BEGINS = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----|PuTTY-User-Key-File-\d")
_KEY_ENDS = re.compile(r"-----END [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----|Private-MAC:")

Detector = Callable[[str], bool]


def without_secrets(diff: str) -> str:
    """Replace each line of a diff that may hold a secret by LEFT_OUT. The line keeps its mark (+, - or space).

    Returns UNCHECKED in place of the whole diff if detect-secrets is not installed.
    """
    if not diff:
        return ""
    try:
        detectors = _detectors()
    except ImportError:
        return UNCHECKED
    lines, in_key = diff.splitlines(keepends=True), False
    values = value_lines(lines)
    for index, line in enumerate(lines):
        in_key = in_key or _KEY_BEGINS.search(line) is not None
        if in_key or index in values or any(holds_secret(line) for holds_secret in detectors):
            in_key = in_key and _KEY_ENDS.search(line) is None
            lines[index] = (line[0] if line[0] in "+- " else "") + LEFT_OUT + "\n"
    return "".join(lines)


@lru_cache(maxsize=1)
def _detectors() -> tuple[Detector, ...]:
    """Return one predicate of a line for each rule."""
    # imported here: it takes 0.15 s, and only a diff needs it
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class

    kinds: dict[str, Any] = get_mapping_from_secret_type_to_class()
    plugins = [kind() for name, kind in kinds.items() if name not in NOT_SECRET]
    return (lambda line: _SECRET.search(line) is not None, *(_predicate(plugin) for plugin in plugins))


def _predicate(plugin: Any) -> Detector:
    """Return a predicate: the detect-secrets plug-in finds a secret, with an entropy above its limit if it has one."""
    limit = getattr(plugin, "entropy_limit", None)

    def holds_secret(line: str) -> bool:
        values: Iterable[str] = plugin.analyze_string(line)
        return any(limit is None or plugin.calculate_shannon_entropy(value) > limit for value in values)

    return holds_secret
