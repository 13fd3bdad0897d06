"""What the command line says of itself, and what it imports for that."""

from __future__ import annotations

import subprocess
import sys

import pytest

from plat.cli import verb_list

NO_HOME = ("completion", "init", "options", "schema", "skill")  # verbs that need no home
HEAVY = ("torch", "mlflow", "ray", "hydra", "pandas", "verl", "omegaconf", "rich", "numpy", "transformers", "pydantic")


def test_help_imports_nothing_heavy():
    code = (
        "import sys\n"
        "from plat.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as stop:\n    assert not stop.code\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "sweep" in done.stdout and "doctor" in done.stdout
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize("verb", verb_list.VERBS)
def test_every_verb_explains_itself(plat, verb):
    code, out, _ = plat(verb, "--help")
    assert code == 0 and ("--home" in out) == (verb not in NO_HOME)


@pytest.mark.parametrize("verb", verb_list.VERBS)
def test_the_list_of_verbs_says_what_each_says_of_itself(verb):
    assert verb_list.load(verb).get_short_help_str(limit=1000) == verb_list.VERBS[verb]


def test_a_verb_imports_no_other(home):
    code = "import sys\nfrom plat.cli import main\ntry: main(['status'])\nexcept SystemExit: pass\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    loaded = done.stdout.split()
    assert "plat.cli.verbs.status" in loaded and not {
        "plat.cli.verbs.doctor",
        "plat.cli.verbs.sweep",
        "plat.cli.verbs.ui",
        "pydantic",
    } & {*loaded}


@pytest.mark.parametrize("verb", ["list", "build", "verify"])
def test_every_verb_about_bases_explains_itself(plat, verb):
    assert verb in plat("base", "--help")[1]
    code, out, _ = plat("base", verb, "--help")
    assert code == 0 and "Usage" in out


def test_help_says_every_exit_code(plat):
    words = " ".join(plat("--help")[1].split())
    assert "home or store that cannot be used" in words and "failed or are damaged" in words


def test_version(plat):
    code, out, _ = plat("--version")
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    assert code == 0 and out.startswith("plat 0.4.0") and (f"(commit {commit[:8]}" in out) == bool(commit)
