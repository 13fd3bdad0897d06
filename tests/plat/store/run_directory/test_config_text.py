"""config.yaml by sections: the same text, and the same values, as YAML gives for the whole."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from toy_runs import toy_run

from plat.errors import HomeError
from plat.plain_files import parse_yaml
from plat.store.home import Home
from plat.store.provenance.code_state import CodeState
from plat.store.run_directory import config_text
from plat.store.run_directory.config_text import load_by_sections, to_yaml
from plat.store.run_directory.creation import create
from plat.store.run_directory.run_files import read_config

KEYS = st.text("abcxyz_.- 0159#:'é", min_size=1, max_size=6)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=90)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3))


def whole(config):
    class Plain(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):
        def ignore_aliases(self, data):
            return True

    return yaml.dump(config, Dumper=Plain, sort_keys=False, allow_unicode=True, default_flow_style=False)


@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_a_config_is_written_as_yaml_writes_the_whole(config):
    assert to_yaml(config) == whole(config)
    shared = {"first": config, "second": config}
    assert to_yaml(shared) == whole(shared)


@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_a_config_is_read_as_yaml_reads_the_whole_or_not_at_all(config):
    text = to_yaml(config)
    assert load_by_sections(text) in (None, parse_yaml(text))


@pytest.mark.parametrize("text", ["a: [", "a: 1\na: 2\n", "- a\n- b\n", "just text", "a: &x {b: 1}\nc: *x\n", "..."])
def test_other_files_are_not_read_by_sections(text):
    assert load_by_sections(text) is None or load_by_sections(text) == parse_yaml(text)


def test_every_config_has_objects_of_its_own():
    text = to_yaml({"model": {"layers": [1, 2]}})
    load_by_sections(text)["model"]["layers"].append(3)
    assert load_by_sections(text) == {"model": {"layers": [1, 2]}}


def test_a_section_that_many_runs_share_is_parsed_once(tmp_path, monkeypatch):
    home, parsed = Home(tmp_path).create(), []
    runs = [toy_run(iterations=number) for number in range(1, 9)]
    paths = [create(home, run, "a", code=CodeState()) for run in runs]
    config_text._section_value.cache_clear()
    real = config_text.parse_yaml
    monkeypatch.setattr(config_text, "parse_yaml", lambda text: (parsed.append(text), real(text))[1])
    assert [read_config(path) for path in paths] == [run.config for run in runs]
    assert len(parsed) == len(set(parsed)) == len(runs[0].config) + len(runs) - 1


def test_a_text_that_reads_otherwise_by_sections_is_read_as_a_whole_or_refused(tmp_path):
    """A comment or another layout is no edit of the values; a changed value is."""
    run = toy_run()
    paths = create(Home(tmp_path).create(), run, "a", code=CodeState())
    text = paths.config.read_text()
    paths.config.write_text("# a comment\n---\n" + text)
    assert read_config(paths) == run.config
    paths.config.write_text(text + "extra: 1\n")
    with pytest.raises(HomeError, match="edited or damaged"):
        read_config(paths)
