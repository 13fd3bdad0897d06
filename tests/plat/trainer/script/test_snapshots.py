"""Runs execute the code as it was when their sweep started, whatever is edited meanwhile."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from plat.store.home import Home

Verb = Callable[..., tuple[int, str, str]]
# The first run edits its own modules before it imports them.
TRAIN = """
import json, sys
from pathlib import Path
if sys.argv[-1] == "0":
    Path("model.py").write_text("WIDTH = 100")
    Path("conf.yaml").write_text("100")
    Path("src/late.py").write_text("LATE = 100")
sys.path.insert(0, "src")
from model import WIDTH
from late import LATE
beside = (Path(__file__).parent / "data" / "one.txt").read_text()
here = Path("data/one.txt").read_text()
conf = float(Path(sys.argv[1]).read_text()) if len(sys.argv) > 2 else 1
Path(f"out-{sys.argv[-1]}.txt").write_text("x")
print(json.dumps({"step": 1, "loss": WIDTH * LATE * conf * float(beside) * float(here)}))
"""


@pytest.fixture
def code(project: Path) -> None:
    for folder in ("src", "data", "sub"):
        Path(folder).mkdir()
    files = {"model.py": "WIDTH = 1", "src/late.py": "LATE = 1", "conf.yaml": "1", "data/one.txt": "1"}
    for name, text in {**files, "train.py": TRAIN}.items():
        Path(name).write_text(text)


def sweep(plat: Verb, command: str, *more: str) -> tuple[int, str]:
    base = "".join(f"  {line}\n" for line in ("trainer: script", command, *more))
    Path("mine.yaml").write_text(f"title: x\nbase:\n{base}matrix: {{seed: [0, 1]}}\n")
    code, out, err = plat("sweep", "mine.yaml", "--jobs", "1")
    return code, " ".join((out + err).split())


def losses() -> list[float]:
    found = []
    for events in sorted(Path("plat-home").glob("runs/*/*/attempts/*/events.jsonl")):
        found += [json.loads(line)["metrics"]["loss"] for line in events.read_text().splitlines()]
    return found


@pytest.mark.parametrize(
    "command",
    [
        "python train.py {seed}",
        "python train.py conf.yaml {seed}",
        "python -m train {seed}",
        "PYTHONPATH=src python train.py {seed}",
        "bash -c 'python train.py conf.yaml {seed}'",
        "bash -c 'cd sub; cd ..; PYTHONPATH=src python -m train {seed}'",
        "python -m torch.distributed.run --nproc-per-node 1 train.py {seed}",
    ],
)
def test_an_edit_while_runs_execute_and_wait_reaches_none_of_them(plat: Verb, code: None, command: str) -> None:
    returned, said = sweep(plat, f"script.command: {json.dumps(command)}")
    assert returned == 0 and losses() == [1.0, 1.0], said
    assert Path("out-0.txt").exists() and Path("out-1.txt").exists()


def test_a_function_runs_from_the_snapshot(plat: Verb, code: None) -> None:
    Path("mine.py").write_text(
        "from pathlib import Path\n"
        "def run(seed):\n"
        "    Path('model.py').write_text('WIDTH = 100')\n"
        "    import model\n"
        "    return {'loss': model.WIDTH}\n"
    )
    returned, said = sweep(plat, "script.function: mine:run")
    assert returned == 0 and losses() == [1.0, 1.0], said


def test_a_hydra_app_reads_its_config_in_the_snapshot(plat: Verb, code: None) -> None:
    Path("conf").mkdir()
    Path("conf/config.yaml").write_text("width: 1\nseed: 0\n")
    Path("app.py").write_text(
        "import json, hydra\n"
        "from pathlib import Path\n"
        "@hydra.main(config_path='conf', config_name='config', version_base=None)\n"
        "def main(cfg):\n"
        "    Path(hydra.utils.get_original_cwd(), 'conf', 'config.yaml').write_text('width: 100')\n"
        "    print(json.dumps({'loss': cfg.width}))\n"
        "main()\n"
    )
    returned, said = sweep(plat, "script.command: python app.py --config-name config.yaml ++seed={seed}")
    assert returned == 0 and losses() == [1.0, 1.0], said


def test_the_site_customisation_of_the_user_still_runs(plat: Verb, code: None, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("sub/sitecustomize.py").write_text("import os; os.environ['HELLO'] = '1'")
    Path("train.py").write_text("import os; print('{\"loss\": %s}' % os.environ['HELLO'])")
    returned, said = sweep(plat, "script.command: PYTHONPATH=sub python train.py {seed}")
    assert returned == 0 and losses() == [1.0, 1.0], said


def test_data_is_not_copied_and_a_change_of_it_is_damage(plat: Verb, code: None) -> None:
    Path("train.py").write_text("open('data/one.txt', 'a').write('1'); print('{\"loss\": 1}')")
    returned, said = sweep(plat, "script.command: python train.py {seed}", "script.files: [data/*.txt]")
    assert returned == 3 and "data/one.txt changed while it executed" in said, said
    assert "data/one.txt changed since this run was planned" in said, said


def test_a_script_that_changes_its_copy_is_named(plat: Verb, code: None) -> None:
    Path("train.py").write_text("open(__file__, 'a').write('x = 1'); print('{\"loss\": 1}')")
    returned, said = sweep(plat, "script.command: python train.py {seed}")
    assert returned == 3 and "train.py changed while it executed" in said, said


def test_what_a_script_writes_beside_its_copy_is_named_and_kept(plat: Verb, code: None) -> None:
    Path("train.py").write_text(
        "from pathlib import Path; (Path(__file__).parent / 'new.txt').write_text('x'); print('{\"loss\": 1}')"
    )
    returned, said = sweep(plat, "script.command: python train.py {seed}")
    assert returned == 0 and "new.txt, beside the copy of its code and not beside the original" in said, said
    assert "code" not in plat("gc", "--caches")[1] and len([*Home(Path("plat-home")).code.iterdir()]) == 1


def test_gc_removes_snapshots_that_no_unfinished_run_needs(plat: Verb, code: None) -> None:
    Path("train.py").write_text(
        "import os, sys; assert sys.argv[1] == '0' or os.path.exists('go'); print('{\"loss\": 1}')"
    )
    assert sweep(plat, "script.command: python train.py {seed}")[0] == 3
    (place,) = Home(Path("plat-home")).code.iterdir()
    plat("gc", "--caches")
    assert place.is_dir()
    Path("go").touch()
    assert plat("retry", "mine.yaml")[0] == 0
    assert "code" in plat("gc", "--caches")[1] and not place.exists()


def test_the_record_of_a_run_names_the_commit_of_the_script(plat: Verb, code: None) -> None:
    Path("train.py").write_text("print('{\"loss\": 1}')")
    git = ["git", "-c", "user.name=x", "-c", "user.email=x"]
    for words in (["init", "-q"], ["add", "train.py"], ["commit", "-qm", "x"]):
        subprocess.run([*git, *words], check=True)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    assert sweep(plat, "script.command: python train.py {seed}")[0] == 0
    texts = [path.read_text() for path in Path("plat-home").glob("runs/*/*/code.txt")]
    assert len(texts) == 2 and all(f"commit: {commit}\n" in text for text in texts)
