"""The kit carries what the machine lacks and nothing else, and a tree without large files."""

from __future__ import annotations

import zipfile

import pack
import pytest

BARE = pack.names_in(pack.HERE / "bare.txt")


def test_names_and_versions_of_the_machine_are_read():
    assert BARE["torch"] == "2.11.0" and BARE["scipy"] == "" and "huggingface-hub" in BARE


@pytest.mark.parametrize("extras", [("hub",), ("hub", "verl", "ray")])
def test_only_what_the_machine_lacks_is_carried(extras):
    names = pack.needed(extras, "3.12", BARE)
    assert {"mlflow", "hydra-core", "omegaconf", "sqlalchemy"} <= set(names)
    assert not set(names) & (set(BARE) - pack.CARRIED_ANYWAY) and "plat" not in names
    assert ("verl" in names) == ("verl" in extras) == ("transferqueue" in names)
    assert "pandas" in names and not set(names) & pack.UNUSED


def test_a_machine_with_everything_gets_nothing():
    assert pack.needed(("verl",), "3.12", dict.fromkeys([*BARE, *pack.needed(("verl",), "3.12", BARE)], "")) == [
        "pandas"
    ]


def test_the_tree_has_the_code_and_no_large_file(tmp_path):
    pack.copy_tree(tmp_path)
    assert (tmp_path / "benchmarks" / "gpu" / "run.py").exists() and (
        tmp_path / "platform" / "plat" / "api.py"
    ).exists()
    assert not (tmp_path / "results").exists() and not (tmp_path / "docs" / "images").exists()
    assert not list((tmp_path / "platform" / "plat_rl" / "bases").glob("v*"))
    assert pack.size_of(tmp_path) < 15


def test_folders_that_are_not_used_are_left_out_of_a_wheel(tmp_path):
    wheel = tmp_path / "mlflow-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as packed:
        for name in ("mlflow/a.py", "mlflow/server/js/build/page.js", "mlflow-1.dist-info/METADATA"):
            packed.writestr(name, name)
    pack.leave_out(wheel, pack.LEFT_OUT["mlflow"])
    assert zipfile.ZipFile(wheel).namelist() == ["mlflow/a.py", "mlflow-1.dist-info/METADATA"]
