"""Pages are read from their place in the file, and a file that is none is named with its line."""

from __future__ import annotations

import json
import subprocess
import tarfile

import pytest

from plat_envs.environment_errors import BadEnvironment
from plat_envs.retrieval import corpus as corpus_module
from plat_envs.retrieval.corpus import SUFFIX, Corpus
from plat_envs.retrieval.file_hash import file_hash
from plat_envs.searchqa.encyclopaedia import encyclopaedia
from plat_envs.searchqa.page_file import write_pages

PAGES = [{"id": str(n), "contents": f'"Title {n}"\n' + "käse 🧀 " * (n % 5)} for n in range(300)]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "pages.jsonl"
    path.write_text("\n".join(json.dumps(page, ensure_ascii=n % 2 == 0) for n, page in enumerate(PAGES)) + "\n")
    return path


@pytest.mark.parametrize("block", [7, 1 << 24])
@pytest.mark.parametrize("change", [lambda text: text, str.rstrip, lambda text: "\n" + text.replace("\n", "\n\n")])
def test_every_page_is_found_by_its_number(file, monkeypatch, block, change):
    """With and without an end of the last line, with empty lines, and read in blocks that cut lines."""
    monkeypatch.setattr(corpus_module, "_BLOCK", block)
    file.write_text(change(file.read_text()))
    pages = Corpus(file)
    assert [pages[number] for number in range(len(pages))] == PAGES
    assert list(pages.texts()) == [page["contents"] for page in PAGES]


def test_places_are_kept_until_the_file_changes(file, monkeypatch):
    Corpus(file)
    with monkeypatch.context() as patched:
        patched.setattr(corpus_module, "_ends_of_lines", lambda path: pytest.fail("the corpus was read again"))
        assert Corpus(file)[299] == PAGES[299]
    before = Corpus(file).content_hash
    file.write_text(file.read_text() + json.dumps(PAGES[0]))
    assert len(Corpus(file)) == 301 and Corpus(file).content_hash != before


@pytest.mark.parametrize("damage", [b"", b"nonsense", None])
def test_damaged_places_are_made_again(file, damage):
    beside = file.with_name(file.name + SUFFIX)
    Corpus(file)
    beside.write_bytes(beside.read_bytes()[:-100] if damage is None else damage)
    assert Corpus(file)[299] == PAGES[299]


def test_a_page_may_have_a_title_and_a_text(tmp_path):
    file = tmp_path / "pages.jsonl"
    file.write_text('{"id": 0, "title": "Ada", "text": "was first"}\n{"id": 1, "text": "alone"}')
    assert list(Corpus(file).texts()) == ['"Ada"\nwas first', "alone"]


@pytest.mark.parametrize("line", ["no json", "[1]", '{"id": 3}', '{"contents": 3}'])
def test_a_line_that_is_no_page_is_named(file, line):
    file.write_text("\n".join([*file.read_text().splitlines()[:4], line]))
    with pytest.raises(BadEnvironment, match="is no page") as caught:
        list(Corpus(file).texts())
    assert caught.value.where == f"{file}:5" and "JSON object" in caught.value.fix


@pytest.mark.parametrize(("content", "said"), [(None, "no corpus"), ("", "empty"), ("\n\n", "empty")])
def test_no_corpus(tmp_path, content, said):
    file = tmp_path / "pages.jsonl"
    if content is not None:
        file.write_text(content)
    with pytest.raises(BadEnvironment, match=said) as caught:
        Corpus(file)
    assert caught.value.fix


@pytest.mark.parametrize("packed", ["gz", ""])
def test_a_packed_corpus_is_refused_with_the_command_that_unpacks_it(file, tmp_path, packed):
    archive = tmp_path / "pages.jsonl.tar"
    with tarfile.open(archive, f"w:{packed}") as tar:
        tar.add(file, "folder/pages.jsonl")
    with pytest.raises(BadEnvironment, match="packed") as caught:
        Corpus(archive)
    empty = tmp_path / "empty"
    empty.mkdir()
    command = caught.value.fix.removeprefix("unpack it: ").partition(" (or")[0]
    subprocess.run(command, shell=True, check=True, cwd=empty)
    assert list(Corpus(empty / "pages.jsonl").texts()) == [page["contents"] for page in PAGES]


def test_a_hash_is_kept_beside_the_file(file):
    known = file_hash(file)
    beside = file.with_name(f"{file.name}.sha256.json")
    assert known in beside.read_text()
    beside.write_text("nonsense")
    assert file_hash(file) == known
    beside.write_text(beside.read_text().replace(known, "0" * 64))
    assert file_hash(file) == "0" * 64, "it is not read again"


def test_generated_pages_begin_with_the_encyclopaedia(tmp_path):
    write_pages(tmp_path / "long.jsonl", 2300, 3)
    write_pages(tmp_path / "short.jsonl", 2200, 3)
    long, short = (Corpus(tmp_path / name) for name in ("long.jsonl", "short.jsonl"))
    assert [*long.texts()][:2200] == [*short.texts()]
    named = [text.partition("\n") for text in long.texts()]
    entities = encyclopaedia(3).entities
    assert [(name.strip('"'), text) for name, _, text in named[:2000]] == [(e.name, e.text) for e in entities.values()]
    assert len({name for name, _, _ in named}) == 2300
