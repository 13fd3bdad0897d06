"""The verdicts of the committed results, in one small file beside the experiment files (`reference.verdicts`)."""

from __future__ import annotations

import json
from pathlib import Path

from plat_analysis.documents.bundles import Bundles
from plat_analysis.reference.verdicts import FILE, entry_of

PLACE = Path("experiments") / FILE


def verdicts_text(bundles: Bundles) -> str:
    """The content of the file: an entry for every experiment file with claims of which a bundle has the results."""
    entries = {}
    for name, folder in sorted(bundles.folders().items()):
        if bundles.claims_of(name):
            entries[name] = entry_of(bundles.report(name), folder.relative_to(bundles.root).as_posix())
    return json.dumps(entries, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
