"""Pages are read from their place in the file, and a file that is none is named with its line."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import tarfile

import pytest

from plat_envs.environment_errors import BadEnvironment
from plat_envs.retrieval import corpus as corpus_module
from plat_envs.retrieval.corpus import SUFFIX, Corpus, file_hash, written
from plat_envs.searchqa.encyclopaedia import encyclopaedia, write_pages

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


def shifted(content: bytes) -> bytes:
    """The same file with the places of some pages in place of others'."""
    words = [content[place : place + 8] for place in range(len(content) % 8, len(content), 8)]
    words[-200:-100] = words[-199:-99]
    return content[: len(content) % 8] + b"".join(words)


@pytest.mark.parametrize(
    "damage", [lambda content: b"", lambda content: b"nonsense", lambda content: content[:-100], shifted]
)
def test_damaged_places_are_made_again(file, damage):
    beside = file.with_name(file.name + SUFFIX)
    Corpus(file)
    good = beside.read_bytes()
    beside.write_bytes(damage(good))
    pages = Corpus(file)
    assert [pages[number] for number in range(len(pages))] == PAGES
    assert beside.read_bytes() == good


def test_a_page_may_have_a_title_and_a_text(tmp_path):
    file = tmp_path / "pages.jsonl"
    file.write_text('{"id": 0, "title": "Ada", "text": "was first"}\n{"id": 1, "text": "alone"}')
    assert list(Corpus(file).texts()) == ['"Ada"\nwas first', "alone"]


@pytest.mark.parametrize("line", ["no json", "[1]", '{"id": 3}', '{"contents": 3}', "[" * 200_000])
@pytest.mark.parametrize("before", [4, 1500])
def test_a_line_that_is_no_page_is_named(file, monkeypatch, line, before):
    """Its number counts empty lines, too."""
    monkeypatch.setattr(corpus_module, "_BLOCK", 1000)
    file.write_text("\n".join([*(6 * file.read_text().splitlines())[: before - 1], "", line]))
    with pytest.raises(BadEnvironment, match="is no page") as caught:
        list(Corpus(file).texts())
    assert caught.value.where == f"{file}:{before + 1}" and "JSON object" in caught.value.fix


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
    for damage in ("nonsense", "[" * 200_000):
        beside.write_text(damage)
        assert file_hash(file) == known
    beside.write_text(beside.read_text().replace(known, "0" * 64))
    assert file_hash(file) == "0" * 64, "it is not read again"


def test_leftovers_of_a_killed_writer_are_removed(tmp_path):
    """Those of the same file alone, and not the file of a writer that lives."""
    out = tmp_path / "pages.jsonl"
    code = (
        "import os, pathlib, signal, sys\n"
        "from plat_envs.retrieval.corpus import written\n"
        "blocks = [written(pathlib.Path(name)) for name in sys.argv[1:]]\n"
        "for block in blocks:\n"
        "    block.__enter__().write(b'part')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", code, out, tmp_path / "other.jsonl"], check=False)
    assert len(list(tmp_path.iterdir())) == 2, "both are left"
    (tmp_path / ".pages.jsonl.swp").touch()
    with written(out) as alive:
        alive.write(b"first")
        with written(out) as file:
            file.write(b"second")
        assert out.read_bytes() == b"second"
    assert out.read_bytes() == b"first"
    (leftover,) = tmp_path.glob(".other.jsonl.*")
    assert {path.name for path in tmp_path.iterdir()} == {"pages.jsonl", ".pages.jsonl.swp", leftover.name}


def test_a_new_file_that_is_taken_for_a_leftover_is_made_again(tmp_path, monkeypatch):
    """Another process may look before the lock is there."""
    lock, names = fcntl.flock, []

    def late(file, operation):
        if not names:
            names.append(file.name)
            os.unlink(file.name)
        lock(file, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with written(tmp_path / "out") as file:
        file.write(b"whole")
    assert names and (tmp_path / "out").read_bytes() == b"whole"


def test_generated_pages_begin_with_the_encyclopaedia(tmp_path):
    write_pages(tmp_path / "long.jsonl", 2300, 3)
    write_pages(tmp_path / "short.jsonl", 2200, 3)
    long, short = (Corpus(tmp_path / name) for name in ("long.jsonl", "short.jsonl"))
    assert [*long.texts()][:2200] == [*short.texts()]
    named = [text.partition("\n") for text in long.texts()]
    entities = encyclopaedia(3).entities
    assert [(name.strip('"'), text) for name, _, text in named[:2000]] == [(e.name, e.text) for e in entities.values()]
    assert len({name for name, _, _ in named}) == 2300
