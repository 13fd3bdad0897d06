"""What docs/tasks.md and the footnote on FrozenLake say beside the generated tables."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
from pathlib import Path

import pytest
import yaml

from plat.spec.reading.overrides import parse_overrides
from plat_envs.api import find_environment
from plat_envs.games.boards import BoardConfig
from plat_envs.policies import fixed_instances, successes

ROOT = Path(__file__).parent.parent
OPTION = r"^\| `(\w+)` \| `?(.*?)`? ?\|"  # a line of a table of options: its name and its default


def test_the_footnote_on_frozen_lake_says_what_a_blind_policy_wins():
    paper = (ROOT / "experiments" / "papers" / "ragen2.yaml").read_text(encoding="utf-8")
    environment, seeds = fixed_instances("frozenlake", {}, "validation", 256)
    share = 100 * sum(successes(environment, seeds, "blind")) / 256
    assert f"blind to holes wins {share:.1f} % of the 256 validation maps" in paper


@pytest.mark.parametrize(
    "task",
    ["Sokoban", "FrozenLake", "MetaMathQA", "Countdown", "WebShop", "SearchQA", "DeepCoder", "Bandit", "reasoning-gym"],
)
def test_every_option_of_a_task_is_listed_with_its_default(task):
    page = (ROOT / "docs" / "tasks.md").read_text(encoding="utf-8")
    section = page.partition(f"\n## {task}\n")[2].partition("\n## ")[0]
    listed = dict(re.findall(OPTION, section, flags=re.M))
    config = find_environment(task.lower().replace("-", "_")).config_type
    if issubclass(config, BoardConfig):
        pictures = page.partition("\n## Pictures\n")[2].partition("\n## ")[0]
        listed |= dict(re.findall(OPTION, pictures, flags=re.M))
    defaults = {field.name: field.default for field in dataclasses.fields(config)}
    shown = {name: value if isinstance(value, str) else json.dumps(value) for name, value in defaults.items()}
    assert "In every task `shared_pool: true`" in page and listed | {"shared_pool": "false"} == shown


def test_the_options_of_a_dataset_are_quoted_as_the_page_says():
    page = (ROOT / "docs" / "tasks.md").read_text(encoding="utf-8")
    section = page.partition("\n## reasoning-gym\n")[2]
    (line,) = re.findall(r"^plat run .*$", section, flags=re.M)
    (word,) = (word for word in shlex.split(line) if word.startswith("task.env.options="))
    in_a_file = yaml.safe_load(re.findall(r"`(task\.env\.options: .*?)`", section)[0])
    (given,) = parse_overrides([word]).assignments
    assert {given.key: given.value} == in_a_file == {"task.env.options": '{"min_terms": 2}'}


def test_the_page_plays_the_smallest_base_below_all_others():
    """What the page says of the order of sizes, read from its own table."""
    page = (ROOT / "docs" / "tasks.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| \*\*qwen2\.5-[\d.]+b\*\* \| [^|]* \|((?: \d+\.\d[^|]*\|){4})$", page, flags=re.M)
    means = [[float(cell.split()[0]) for cell in line.split("|")[:4]] for line in lines]
    smallest, *others = means
    assert len(others) == 3 and all(s < o for larger in others for s, o in zip(smallest, larger, strict=True))
