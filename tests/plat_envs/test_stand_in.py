"""The word list is fixed: a base model is trained on exactly this one."""

from __future__ import annotations

from hashlib import sha256

from plat_envs.stand_in import GRID_TEMPLATES, NUMBER_TEMPLATES, PUSH_TEMPLATES, TASKS, VERSION, WORDS

# A change here is a new VERSION: every base model and every run made from one would change with it.
LISTS = {"v2": "85d1384c2abd9b5346235c70f23dc90da3f55e1cad46cc465c697496b67fdde8"}


def test_the_list_of_this_version_has_not_changed():
    assert sha256("\n".join(WORDS).encode()).hexdigest() == LISTS[VERSION]


def test_words_are_distinct_and_few():
    assert len(WORDS) == len(set(WORDS)) <= 192
    assert not any(word.split() != [word] for word in WORDS)
    assert WORDS[0] == "<pad>"


def test_all_seven_tasks_have_their_word():
    assert len(TASKS) == 7 and set(TASKS) <= set(WORDS)


def test_templates_are_made_of_words():
    for sentence in (*GRID_TEMPLATES, *PUSH_TEMPLATES, *NUMBER_TEMPLATES):
        assert set(sentence.split()) <= set(WORDS)
        assert 4 <= len(sentence.split()) <= 8
