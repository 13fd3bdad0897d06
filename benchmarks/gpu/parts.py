"""The parts of the kit: files that travel to a machine without network, split so that each call carries little.

A part is a folder with pieces of files and `list.json`, the same list in every part:

    {"python": "3.12", "parts": 3, "files": [{"name": "ray-2.60.0-….whl", "sha256": "…",
     "pieces": [{"part": 2, "name": "ray-2.60.0-….whl.1", "bytes": 41943040, "sha256": "…"}, …]}, …]}

A file that fits into what is left of a part is one piece; a larger one continues in the next part. Standard library
only, because the machine has nothing else before the parts are installed.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

LIST = "list.json"
BLOCK = 1 << 20  # bytes read at a time


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file as hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def write_parts(files: Iterable[Path], out: Path, limit: int, python: str) -> list[Path]:
    """Write files into folders `out/part-1`, `part-2`, …, of at most `limit` bytes each, and return the folders.

    Files are laid one after the other in the order given. `out` must not have any such folder.
    """
    listed: list[dict[str, Any]] = []
    part, used = 1, 0
    for path in files:
        left, offset, pieces = path.stat().st_size, 0, []
        whole = left
        while left:
            if used == limit:
                part, used = part + 1, 0
            size = min(left, limit - used)
            name = path.name if size == whole else f"{path.name}.{len(pieces) + 1}"
            piece = out / f"part-{part}" / name
            piece.parent.mkdir(parents=True, exist_ok=True)
            _copy_range(path, piece, offset, size)
            pieces.append({"part": part, "name": name, "bytes": size, "sha256": sha256(piece)})
            left, offset, used = left - size, offset + size, used + size
        listed.append({"name": path.name, "sha256": sha256(path), "pieces": pieces})
    folders = [out / f"part-{number}" for number in range(1, part + 1)]
    text = json.dumps({"python": python, "parts": part, "files": listed}, indent=1)
    for folder in folders:
        (folder / LIST).write_text(text + "\n")
    return folders


def _copy_range(source: Path, target: Path, offset: int, size: int) -> None:
    with source.open("rb") as stream, target.open("wb") as out:
        stream.seek(offset)
        while size:
            block = stream.read(min(BLOCK, size))
            out.write(block)
            size -= len(block)


class Store:
    """The pieces that have arrived on this machine, in any number of calls, and the files joined from them.

    folder/pieces   verified pieces; folder/files   verified whole files; folder/list.json   the list
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.list: dict[str, Any] = _read_list(folder / LIST) or {"python": "", "parts": 0, "files": []}
        self.problems: list[str] = []  # of joining files

    def take(self, part: Path) -> list[str]:
        """Copy the sound pieces of a part; return what is wrong with the part, a line for each problem."""
        listed = _read_list(part / LIST)
        if listed is None:
            return [f"{part}: no readable {LIST}: send the whole folder of the part"]
        if self.list["files"] and listed != self.list:
            return [f"{part}: of another pack than the parts before: empty {self.folder}, or send parts of one pack"]
        if not self.list["files"]:
            self.folder.mkdir(parents=True, exist_ok=True)
            arriving = self.folder / f"{LIST}.arriving"
            shutil.copyfile(part / LIST, arriving)
            arriving.rename(self.folder / LIST)
            self.list = listed
        problems = []
        for file in listed["files"]:
            for piece in file["pieces"]:
                source, target = part / piece["name"], self._piece(piece)
                if target.exists() or self._file(file).exists() or not source.is_file():
                    continue
                if sha256(source) != piece["sha256"]:
                    problems.append(
                        f"{source}: damaged, its hash is not that of the list: send part {piece['part']} again"
                    )
                    continue
                target.parent.mkdir(parents=True, exist_ok=True)
                arriving = target.with_name(target.name + ".arriving")
                shutil.copyfile(source, arriving)
                arriving.rename(target)
        return problems

    def files(self) -> list[Path]:
        """Join what is complete, and return all whole files."""
        whole = []
        for file in self.list["files"]:
            path, pieces = self._file(file), [self._piece(piece) for piece in file["pieces"]]
            if not path.exists() and all(piece.exists() for piece in pieces):
                path.parent.mkdir(parents=True, exist_ok=True)
                joining = path.with_name(path.name + ".joining")
                with joining.open("wb") as out:
                    for piece in pieces:
                        with piece.open("rb") as stream:
                            shutil.copyfileobj(stream, out)
                is_whole = sha256(joining) == file["sha256"]
                if is_whole:
                    joining.rename(path)
                else:
                    self.problems.append(f"{path.name}: its pieces were damaged after they came: send them again")
                for piece in pieces:
                    piece.unlink()
            if path.exists():
                whole.append(path)
        return whole

    def missing(self) -> list[int]:
        """Return the numbers of the parts of which a piece has not arrived."""
        return sorted(
            {
                piece["part"]
                for file in self.list["files"]
                if not self._file(file).exists()
                for piece in file["pieces"]
                if not self._piece(piece).exists()
            }
        )

    def _piece(self, piece: dict[str, Any]) -> Path:
        return self.folder / "pieces" / f"{piece['part']}-{piece['name']}"

    def _file(self, file: dict[str, Any]) -> Path:
        return self.folder / "files" / str(file["name"])


def _read_list(path: Path) -> dict[str, Any] | None:
    """Return the list of a part; None if it cannot be read, or names a file outside its folder."""
    try:
        listed: dict[str, Any] = json.loads(path.read_text())
        names = [entry["name"] for file in listed["files"] for entry in (file, *file["pieces"])]
        facts = [piece["part"] + piece["bytes"] for file in listed["files"] for piece in file["pieces"]]
        hashes = [entry["sha256"] for file in listed["files"] for entry in (file, *file["pieces"])]
        sound = bool(facts and hashes and listed["python"] and listed["parts"])
        return listed if sound and all(Path(name).name == name and name != ".." for name in names) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
