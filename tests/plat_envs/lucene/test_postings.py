"""The ranking, against a slow one that is written as the formula reads. `python THIS FILE` writes the golden hits."""

from __future__ import annotations

import json
import math
import random
import struct
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plat_envs.environment_errors import BadEnvironment
from plat_envs.lucene import build, load, rounded_length, terms

GOLDEN = Path(__file__).parent / "golden_hits.json"
PLAIN = [first + vowel + last for first in "bdfkmptvz" for vowel in "ao" for last in "kpt"]  # words that are terms


def single(value):
    """Round to single precision, without numpy."""
    return struct.unpack("f", struct.pack("f", value))[0]


def through_a_byte(length):
    """Write a length as Lucene does into eight bits: 24 whole numbers, then three bits of mantissa; read it back."""
    if length < 24:
        return length
    rest, bits = length - 24, (length - 24).bit_length()
    code = rest if bits < 4 else (rest >> bits - 4 & 7) | bits - 3 << 3
    assert code + 24 < 256
    back = code if code < 8 else (code & 7 | 8) << (code >> 3) - 1
    return 24 + back


def slow_search(documents, query, count):
    """BM25 with k1 = .9 and b = .4 by loops over dictionaries. `documents`: id -> counts of its terms."""
    filled = [counts for counts in documents.values() if counts]
    mean = single(sum(sum(counts.values()) for counts in filled) / len(filled)) if filled else 1.0
    k1, b = single(0.9), single(0.4)
    scores = {}
    for name, counts in documents.items():
        matching = {term: times for term, times in Counter(query).items() if term in counts}
        length = through_a_byte(sum(counts.values()))
        total = 0.0
        for term, times in matching.items():
            having = sum(term in other for other in filled)
            idf = single(math.log(1 + (len(filled) - having + 0.5) / (having + 0.5)))
            norm = single(single(single(1 - b) + single(single(b * length) / mean)) * k1)
            weight = single(times * idf)
            total += single(weight - single(weight / single(1 + single(counts[term] * single(1 / norm)))))
        if matching:
            scores[name] = single(total)
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:count]


def made(rng, count, longest):
    """Documents of plain words, as counts, with repeated lengths, so that scores tie."""
    lengths = [rng.randint(0, longest) for _ in range(max(1, count // 3))]
    return {
        f"d{rng.randrange(10**6)}-{number}": Counter(rng.choices(PLAIN, k=rng.choice(lengths)))
        for number in range(count)
    }


def test_plain_words_are_terms():
    assert terms(" ".join(PLAIN)) == PLAIN


@pytest.mark.parametrize("length", [*range(60), 87, 88, 119, 120, 1000, 65535, 10**6, 2**31 - 1])
def test_lengths_go_through_a_byte(length):
    assert rounded_length(length) == through_a_byte(length) <= length < 1.2 * rounded_length(length) + 1


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 10**9), query=st.lists(st.sampled_from([*PLAIN, "absent"]), max_size=7), count=st.integers(0, 9)
)
def test_hits_and_scores_are_those_of_the_slow_ranking(seed, query, count):
    documents = made(random.Random(seed), 20, 130)
    index = build((name, " ".join(counts.elements())) for name, counts in documents.items())
    assert index.search(" ".join(query), count) == slow_search(documents, query, count)


def test_a_thousand_queries_on_one_index():
    rng = random.Random(7)
    documents = made(rng, 60, 90)
    index = build((name, " ".join(counts.elements())) for name, counts in documents.items())
    ties = 0
    for _ in range(1000):
        query = rng.choices(PLAIN, k=rng.randint(1, 4))
        hits = index.search(" ".join(query), 50)
        assert hits == slow_search(documents, query, 50)
        ties += len({score for _, score in hits}) < len(hits)
    assert ties > 100, "the order of equal scores was tried"


def test_golden_hits():
    """Hits of documents of our own that the slow ranking has found; a change of the analysis shows here too."""
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    index = build(golden["documents"].items())
    for query, hits in golden["hits"].items():
        assert index.search(query, 10) == [tuple(hit) for hit in hits], query
    assert index.content_hash == golden["content_hash"] and len(golden["hits"]) >= 20


def test_a_repeated_word_counts_again():
    index = build([("a", "kak"), ("b", "pop"), ("c", "tat")])
    (once,), (twice,) = index.search("kak", 9), index.search("kak kak", 9)
    assert twice == ("a", 2 * once[1])
    assert [name for name, _ in index.search("kak pop pop", 9)] == ["b", "a"]


@pytest.mark.parametrize("text", ["", " ", "<c>", "<a> x", "]", "\0", "the of", "\ud800"])
def test_odd_queries_find_nothing_and_raise_nothing(text):
    assert build([("a", "kak"), ("b", "")]).search(text, 5) == []
    assert build([]).search(text or "kak", 5) == []


def test_the_hash_and_the_index_do_not_depend_on_the_order(tmp_path):
    documents = [("b", "pens red"), ("a", "small books"), ("c", "")]
    index, other = build(documents), build(reversed(documents))
    assert index.content_hash == other.content_hash and index.ids == other.ids == ("a", "b", "c")
    assert index.content_hash != build([*documents[:2], ("c", "pens")]).content_hash
    index.save(tmp_path / "index.npz")
    again = load(tmp_path / "index.npz")
    assert again.content_hash == index.content_hash and again.search("books", 3) == index.search("books", 3)


def test_a_damaged_index_is_refused(tmp_path):
    path = tmp_path / "index.npz"
    build([("a", "kak")]).save(path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(BadEnvironment, match="remove this file"):
        load(path)


def write_golden():
    """Write documents of a small made-up stationer's, queries, and the hits of the slow ranking."""
    rng = random.Random(2026)
    kinds = ("running shoes", "women's sandals", "ballpoint pens", "story books", "USB-C cables", "glass bottles")
    looks = ("dark red", "light blue", "striped", "plain white", "hand-painted ★", "3.5 inch", "washable", "foldable")
    uses = ("for travelling", "for children's rooms", "with free replacements", "in a 10-pack", "of recycled paper")
    documents = {}
    for number in range(60):
        parts = [rng.choice(looks), rng.choice(kinds), *rng.sample(uses, rng.randint(1, 3))]
        text = " ".join(parts) + ". " + " ".join(rng.choices(looks, k=rng.randint(0, 12)))
        documents[f"B{rng.randrange(10**8):08d}{number % 10}"] = text[0].upper() + text[1:]
    queries = [f"{look} {kind}" for look in looks[:4] for kind in kinds]
    queries += ["travel traveling travels", "the women’s", "★", "red red blue", "replacement of the child"]
    found = {name: Counter(terms(text)) for name, text in documents.items()}
    hits = {query: slow_search(found, terms(query), 10) for query in queries}
    content = {"documents": documents, "hits": hits, "content_hash": build(documents.items()).content_hash}
    GOLDEN.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_golden()
