"""Wrong experiment files and overrides: what, where and how to fix it; never a traceback."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from plat.errors import SpecError
from plat.spec.expansion.experiment import build_run, load_experiment, load_experiments

HEAD = "title: t\n"

# text, what it says, the place (line:column), what the last line names
FILES = [
    ("tilte: t\n", "unknown key 'tilte'", "1:1", "'title'"),
    (HEAD + "trainer: script\n", "unknown key 'trainer'", "2:1", "below `base:`"),
    ("- a\n", "mapping", "1:1", "title"),
    ("title: [a]\n", "title must be text", "1:8", "words"),
    ("matrix: {seed: [0]}\n", "no title", "1:1", "title"),
    (HEAD + "conclusion: [a]\n", "conclusion must be text", "2:13", "words"),
    (HEAD + "matrix: [1]\n", "matrix must be a mapping", "2:9", "axis"),
    (HEAD + "matrix: {seed: []}\n", "no values", "2:16", "at least one"),
    (HEAD + "matrix: {seed: }\n", "no values", "2:15", "at least one"),
    (HEAD + "matrix: {variant: {}}\n", "no values", "2:19", "at least one"),
    (HEAD + "matrix: {seed: [0, 1, 0]}\n", "lists 0 twice", "2:23", "remove"),
    (HEAD + "matrix: {train.lr: [1e-3, 0.001]}\n", "twice", "2:27", "remove"),
    (HEAD + "matrix: {seed: [0, [1]]}\n", "not a scalar", "2:20", "bundles"),
    (HEAD + "matrix: {variant: [{algorithm: ppo}]}\n", "not a scalar", "2:20", "bundles"),
    (HEAD + "matrix: {seed: range(a)}\n", "range(a) is not a range", "2:16", "range(START,STOP)"),
    (HEAD + "matrix: {seed: range(1,1000)}\n", "a value at its comma: seed is read as 'range(1'", "2:16", "quotes"),
    (HEAD + "matrix: {seed: [range(1,1000)]}\n", "cuts a value at its comma", "2:17", "quotes"),
    (HEAD + "matrix: {variant: [a, b]}\n", "its values must list its overrides", "2:10", "`variant: {a: {task: "),
    (HEAD + "matrix:\n  tsak: [sokoban]\n", "unknown key 'tsak'", "3:3", "'task'"),
    (HEAD + "matrix:\n  task: [sokobann]\n", "unknown option 'sokobann'", "3:10", "'sokoban'"),
    (HEAD + "matrix:\n  task:\n    - sokoban\n    - frozenlke\n", "'frozenlke'", "5:7", "'frozenlake'"),
    (HEAD + "matrix:\n  filter.value: [0.9, high]\n", "'high' is not a number", "3:23", "number"),
    (HEAD + "matrix:\n  variant: {A: {algoritm: ppo}}\n", "unknown key 'algoritm'", "3:17", "'algorithm'"),
    (HEAD + "matrix:\n  variant: {A: ppo}\n", "mapping", "3:16", "key: value"),
    (HEAD + "base: {train: {itrations: 3}}\n", "unknown key 'train.itrations'", "2:16", "'train.iterations'"),
    (HEAD + "base: {train.iterations: many}\n", "not a whole number", "2:26", "whole number"),
    (HEAD + "base: {train.iterations: 2.5}\n", "not a whole number", "2:26", "whole number"),
    (HEAD + "base: {train.iterations: -1}\n", "out of range", "2:26", "at least 0"),
    (HEAD + "base: {train.iterations: 999999999999999999}\n", "out of range", "2:26", "at most 10,000,000"),
    (HEAD + "base: {train.prompts: 0}\n", "out of range", "2:23", "at least 1"),
    (HEAD + "base: {train.beta1: 1}\n", "out of range", "2:21", "less than 1"),
    (HEAD + "base: {early_stop.variance_fraction: .inf}\n", "infinity", "2:38", "a number"),
    (HEAD + "base: {seed: -5}\n", "out of range", "2:14", "at least 0"),
    (HEAD + "base: {model.base.seed: -5}\n", "out of range", "2:25", "at least 0"),
    ("title: ''\n", "no title", "1:8", "title"),
    (HEAD + "matrix: {task: [sokoban, sokoban], seed: [0]}\nzip: [[seed, model]]\n", "twice", "2:26", "remove"),
    (HEAD + "base: {train: 5}\n", "group of keys", "2:15", "train."),
    (HEAD + "base: {seed: }\n", "null", "2:13", "whole number"),
    (HEAD + "base: {filter.rule: top_pp}\n", "unknown value 'top_pp'", "2:21", "'top_p'"),
    (HEAD + "base: {task.name: sokobann}\n", "unknown environment 'sokobann'", "2:19", "'sokoban'"),
    (HEAD + "base: {task: frozenlake, task.env.sise: 4}\n", "no option 'sise'", "2:41", "'size'"),
    (HEAD + "base: {task: frozenlake, task.env.size: big}\n", "task.env.size", "2:41", "whole number"),
    (HEAD + "base: {task: frozenlake, task.env.size: 1000}\n", "frozenlake: ", "2:41", ""),
    (HEAD + "base: {task: sokoban, task.env: 3}\n", "task.env", "2:33", "task.env.NAME"),
    (HEAD + "base: {model.shape.width: 30}\n", "width 30", "2:27", "heads"),
    (HEAD + "base: {trainer: embeded}\n", "unknown trainer 'embeded'", "2:17", "embedded"),
    (HEAD + "base: {scale: paper, trainer: no.module:SPEC}\n", "cannot load", "2:31", "importable"),
    (HEAD + "base: {train.lr: ${oc.env:HOME}}\n", "", "2:", ""),
    (HEAD + "base: {model.path: '${oc.env:HOME}'}\n", "interpolations", "2:20", "value itself"),
    (HEAD + "base: [algorithm]\n", "mapping", "2:7", "key: value"),
    (HEAD + "matrix: {seed: [0]}\nzip: [[seed, task]]\n", "unknown axis 'task'", "3:7", "seed"),
    (
        HEAD + "matrix: {seed: [0], task: [sokoban, countdown]}\nzip: [[seed, task]]\n",
        "seed has 1, task has 2",
        "3:7",
        "equal",
    ),
    (HEAD + "matrix: {seed: [0], task: [sokoban]}\nzip: [[seed, task], [seed]]\n", "named twice", "3:21", "once"),
    (HEAD + "matrix: {seed: [0]}\nzip: seed\n", "zip must be a list", "3:6", "zip: [...]"),
    (HEAD + "matrix: {seed: [0]}\nexclude: [{sede: 0}]\n", "unknown axis 'sede'", "3:12", "'seed'"),
    (HEAD + "matrix: {seed: [0]}\nexclude: [{seed: 3}]\n", "no value 3", "3:18", "0"),
    (HEAD + "matrix: {seed: [0]}\nexclude: [{seed: 0}]\n", "every run is excluded", "2:1", "exclude"),
    (HEAD + "matrix: {seed: [0]}\nexclude: [{seed: [{a: 1}]}]\n", "not a value", "3:18", "axis: value"),
    (HEAD + "matrix: {seed: [0]}\nexclude: [seed]\n", "a row must be a mapping", "3:11", "task"),
    (HEAD + "matrix: {seed: [0]}\ninclude: [{sede: 0}]\n", "unknown key 'sede'", "3:12", "'seed'"),
    (HEAD + "matrix: {v: {A: {}}}\ninclude: [{v: B}]\n", "no value 'B'", "3:15", "A"),
    (HEAD + "report: [{bulder: collapse}]\n", "needs `builder`", "2:10", "builder"),
    (HEAD + "report: [{builder: colapse}]\n", "unknown builder 'colapse'", "2:20", "'collapse'"),
    (HEAD + "report: collapse\n", "report must be a list", "2:9", "report: [...]"),
    (HEAD + "claims: [{check: mean_delta_positive}]\n", "needs `id`", "2:10", "id"),
    (HEAD + "claims: [{id: a, check: mean_delta_positve}]\n", "unknown check", "2:25", "'mean_delta_positive'"),
    (
        HEAD + "claims:\n- {id: a, check: mean_delta_positive}\n- {id: a, check: mean_delta_positive}\n",
        "given twice",
        "4:8",
        "rename",
    ),
    (HEAD + "title: u\n", "given twice", "2:1", "remove"),
    (HEAD + "base:\n\tseed: 1\n", "'\\t'", "3:1", "spaces"),
    ("", "empty", "1:1", "title"),
    (HEAD + "base: &b {seed: 1, more: *b}\n", "its own alias", "2:7", "write"),
    (b"title: caf\xe9\n", "UTF-8", "1:11", "UTF-8"),
]


@pytest.mark.parametrize(("text", "what", "place", "fix"), FILES, ids=[str(case[1]) or "syntax" for case in FILES])
def test_wrong_files(
    refused: Callable[..., SpecError], folder: Path, text: str | bytes, what: str, place: str, fix: str
) -> None:
    error = refused(text)
    assert what in error.what, error.render()
    assert str(error.where).startswith(str(folder)) and f".yaml:{place}" in str(error.where), error.render()
    assert fix in str(error.fix), error.render()


GOOD = (
    HEAD
    + """
base: {algorithm: ppo}
matrix:
  variant: {PPO: {}, GRPO: {algorithm: grpo}}
  task: [sokoban, frozenlake]
  seed: [0, 1]
"""
)
LINES = [
    ("sacle=smoke", "unknown key 'sacle'", "'scale'"),
    ("scale=smok", "unknown option 'smok'", "'smoke'"),
    ("train.lr=fast", "not a number", "number"),
    ("train.lrr=1,2", "unknown key 'train.lrr'", "'train.lr'"),
    ("matrix.tsak=[sokoban]", "unknown key 'tsak'", "'task'"),
    ("matrix.task=[sokobann]", "'sokobann'", "'sokoban'"),
    ("matrix.task=[]", "no values", "at least one"),
    ("matrix.seed=[1,1]", "twice", "remove"),
    ("matrix.variant=[ppo]", "no value 'ppo'", "'PPO'"),
    ("matrix.variant=[PPO,PPO]", "twice", "remove"),
    ("algorithm=grpo", "variant 'GRPO' sets algorithm itself", "matrix.variant"),
    ("task.env.sise=3", "no option 'sise'", "'size'"),
    ("train.rendering=chat", "compact", "train.rendering=compact"),
    ("trainer=nobody", "unknown trainer", "embedded"),
    ("seed=x", "'x' is not a whole number", "whole number"),
    ("oops", "needs `key=value`", "key=value"),
    ("seed=int(a)", "not a valid override: 'int(a)': invalid literal", "quote"),
    ("matrix.seed=range(a)", "range(a) is not a range", "range(START,STOP)"),
    ("matrix.seed=range(200001)", "200,001", "100,000"),
    ("task=", "unknown option ''", "sokoban"),
    ("train={itrations: 3}", "unknown key 'train.itrations'", "'train.iterations'"),
    ("train.lr='${train.critic_lr}'", "interpolations", "value itself"),
]


@pytest.mark.parametrize(("override", "what", "fix"), LINES, ids=[case[0] for case in LINES])
def test_wrong_overrides(refused: Callable[..., SpecError], override: str, what: str, fix: str) -> None:
    error = refused(GOOD, "train.iterations=2", override)
    assert what in error.what, error.render()
    assert f"command line: {override}" in str(error.where), error.render()
    assert fix in str(error.fix), error.render()


def test_wrong_runs_without_a_file() -> None:
    for override in ("seed=1,2", "matrix.seed=[1]", "seed=range(3)", "sede=1"):
        with pytest.raises(SpecError) as caught:
            build_run([override])
        assert override in str(caught.value.where) and caught.value.fix


def test_paths_that_are_no_experiment_files(tmp_path: Path) -> None:
    (tmp_path / "table4.yaml").write_text("title: t")
    for name, what in (("tabel4.yaml", "no such file"), ("", "directory"), ("none/x.yaml", "no such file")):
        with pytest.raises(SpecError) as caught:
            load_experiment(tmp_path / name)
        assert what in caught.value.what


@pytest.mark.parametrize("name", ["..", ".hidden", "...", "-x", "a@b", "a\nb", "a\x1b[31m", "x" * 200])
def test_a_file_whose_name_cannot_name_its_results(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}.yaml"
    path.write_text("title: t")
    with pytest.raises(SpecError, match="cannot name its results") as caught:
        load_experiment(path)
    assert "rename" in str(caught.value.fix)


@pytest.mark.parametrize("name", ["table4", "Table 4.1", "grün", "_x-y"])
def test_a_file_whose_name_can(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}.yaml"
    path.write_text("title: t")
    assert load_experiment(path).name == name


@pytest.mark.parametrize(
    ("text", "character", "place"),
    [
        ('title: "a\\e[31mred"\n', "U+001B", "1:8"),
        ('title: "\\ud800"\n', "U+D800", "1:8"),
        ('title: t\nmatrix: {variant: {"a\\u202eb": {}}}\n', "U+202E", "2:20"),
        ('title: t\nmatrix: {seed: ["\\x9b1m"]}\n', "U+009B", "2:17"),
    ],
)
def test_characters_that_a_terminal_would_obey(
    refused: Callable[..., SpecError], text: str, character: str, place: str
):
    error = refused(text)
    assert character in error.what and str(error.where).endswith(place)
    assert error.render().isprintable() or "\n" in error.render()


def test_such_characters_on_the_command_line(refused: Callable[..., SpecError]) -> None:
    for override in ("model.path='\x1b[31m'", "model.path=\udcff"):
        assert "does not accept" in refused("title: t\n", override).what


def test_numbers_with_hundreds_of_digits(refused: Callable[..., SpecError]) -> None:
    digits = "9" * 400
    assert "too many digits" in refused(f"title: t\nmatrix: {{seed: [{digits}]}}\n").what
    assert "too many digits" in refused("title: t\n", f"matrix.seed=[{digits}]").what
    assert "too many digits" in refused("title: t\n", f"seed={digits}").what


@pytest.mark.parametrize("place", ["unittest.__main__:x", "..x:y", "os:getcwd", "plat_toy:Toy"])
def test_planning_imports_no_code_that_is_not_published(
    refused: Callable[..., SpecError], monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.delenv("PLAT_ALLOW_IMPORT")
    monkeypatch.setattr("importlib.import_module", None)
    error = refused(f"title: t\nbase: {{trainer: '{place}'}}\n")
    assert "not published" in error.what and "--allow-import" in str(error.fix) and str(error.where).endswith("2:17")


def test_a_path_that_is_not_there_gets_the_nearest_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "experiments" / "controls").mkdir(parents=True)
    for name in ("quickstart", "controls/control_a"):
        (tmp_path / "experiments" / f"{name}.yaml").write_text("title: t")
    monkeypatch.chdir(tmp_path)
    for wrong, right in (("quickstart", "quickstart"), ("quickstrat.yaml", "quickstart"), ("control_a", "controls/c")):
        with pytest.raises(SpecError, match="no such file") as caught:
            load_experiment(wrong)
        assert f"did you mean 'experiments/{right}" in str(caught.value.fix)


def test_two_files_of_one_name(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.yaml").write_text("title: t")
    paths = [tmp_path / "a/same.yaml", tmp_path / "b/same.yaml"]
    with pytest.raises(SpecError, match="two files"):
        load_experiments(paths)
    assert len(load_experiments([paths[0], paths[0]])) == 1, "the same file twice is one experiment"


def test_papers_files(tmp_path: Path) -> None:
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers/ragen2.yaml").write_text("tables: {a: {}}")
    (tmp_path / "papers/broken.yaml").write_text("- 1")
    file = tmp_path / "x.yaml"
    file.write_text("title: t\npaper: ragen2\n")
    assert load_experiment(file).paper_data == {"tables": {"a": {}}}
    (tmp_path / "controls").mkdir()
    (tmp_path / "controls/y.yaml").write_text("title: t\npaper: ragen2\n")
    assert load_experiment(tmp_path / "controls/y.yaml").paper_data == {"tables": {"a": {}}}, "from the folder above"
    unknown = ("ragen", "unheard-of", "papers/ragen2", "../x", "''")
    for paper, what in (*((name, "unknown paper") for name in unknown), ("broken", "mapping")):
        file.write_text(f"title: t\npaper: {paper}\n")
        with pytest.raises(SpecError, match=what) as caught:
            load_experiment(file)
        assert caught.value.fix and re.search(r"yaml:\d+:\d+", caught.value.where or "")
