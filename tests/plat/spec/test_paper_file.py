"""The file of a paper is checked as a whole before anything runs: each mistake is one message at its own line."""

import pytest

from plat.errors import SpecError
from plat.spec.expansion.experiment import load_experiment

EXPERIMENT = "title: t\npaper: mine\nsource: T\nbase: {task: frozenlake}\nmatrix: {seed: [0]}\n"


def load(tmp_path, paper):
    (tmp_path / "papers").mkdir(exist_ok=True)
    (tmp_path / "papers" / "mine.yaml").write_text(paper)
    path = tmp_path / "x.yaml"
    path.write_text(EXPERIMENT)
    return load_experiment(path)


@pytest.mark.parametrize(
    "line, what",
    [
        ("", "the file is empty"),
        ("[1]", "a paper's file must be a mapping"),
        ("title: [1]", "title must be text"),
        ("main_claim: {a: b}", "main_claim must be text"),
        ("tables: 3", "tables must be a mapping"),
        ("tables: {T: [1]}", "a printed table must be a mapping"),
        ("tables: {T: {columns: 3}}", "columns must be a list"),
        ("tables: {T: {rows: [1]}}", "rows must be a mapping"),
        ("tables: {T: {rows: {PPO: many}}}", "cannot read the printed cell 'many'"),
        ("tables: {T: {rows: {PPO: {peak: .nan}}}}", "cannot read the printed cell nan"),
        ("tables: {T: {rows: {PPO: {peak: true}}}}", "cannot read the printed cell True"),
        ("tables: {T: {rows: {PPO: {peak: {value: .inf, delta: 1}}}}}", "cannot read the printed cell inf"),
        ("tables: {T: {rows: {PPO: {peak: [1, 2, 3]}}}}", "cannot read the printed cell [1, 2, 3]"),
        ("claims: 4", "claims must be a list"),
        ("claims: [4]", "no id or sentence"),
        ("claims: [{id: a, says: b}, {id: a, says: c}]", "the id 'a' is given twice"),
        ("claims: [{id: a, says: b, source: [1]}]", "source must be text"),
        ("claims: [{id: a, says: b, tested_by: c}]", "tested_by of 'a' must be a list of claims"),
        ("discrepancies: 3", "discrepancies must be a list"),
        ("discrepancies: [3]", "a contradiction must be a mapping"),
        ("discrepancies: [{text: [1]}]", "text must be text"),
        ("discrepancies: [{text: x, artifacts: 3}]", "artifacts must be a name or a list of names"),
        ("discrepancies: [{text: x, cell: [1]}]", "a cell has a row and a column"),
    ],
)
def test_a_mistake_has_one_message_at_its_line(tmp_path, line, what):
    with pytest.raises(SpecError) as caught:
        load(tmp_path, f"{line}\n")
    assert what in str(caught.value) and caught.value.fix
    assert str(caught.value.where).startswith(f"{tmp_path / 'papers' / 'mine.yaml'}:1:")


def test_every_form_of_a_cell_is_read(tmp_path):
    rows = "{PPO: {section: s, a: 1, b: [1, 2], c: {value: 1, delta: -2}, d: }, GRPO: [1, [2, 3]], all: 0.5}"
    data = load(tmp_path, f"tables: {{T: {{columns: [a, b], rows: {rows}}}}}\nclaims:\ndiscrepancies:\n").paper_data
    assert data["tables"]["T"]["rows"]["GRPO"] == [1, [2, 3]]
