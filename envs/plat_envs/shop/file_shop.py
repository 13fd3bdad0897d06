"""The published shop: its files are converted once, to a database and a search index beside them.

Both are named after a hash of the files, so a changed file is converted again.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from functools import cached_property, lru_cache
from hashlib import file_digest, sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from plat_envs.environment_errors import BadEnvironment
from plat_envs.shop.catalogue import HITS, WINDOW, searched_text
from plat_envs.shop.product import Goal, Product, WebShopConfig
from plat_envs.shop.published import (
    GET_IT,
    Instruction,
    as_row,
    from_row,
    goal_count,
    goal_of,
    human,
    product_of,
    read_items,
    read_object,
    synthetic,
)

if TYPE_CHECKING:
    from plat_envs.lucene import Postings

FORMAT = "2"  # of the converted files; raise it when they change
_MADE_AGAIN = "remove this file; it is made again"
_PRODUCTS = "items_shuffle"
_TABLES = """
CREATE TABLE products (id TEXT PRIMARY KEY, product TEXT NOT NULL);
CREATE TABLE instructions (place INTEGER PRIMARY KEY, id TEXT NOT NULL, goals INTEGER NOT NULL, content TEXT NOT NULL);
CREATE INDEX instructions_of ON instructions (id);
"""


def published_files(config: WebShopConfig) -> dict[str, Path]:
    """Return the files of products, attributes and, for human goals, instructions. BadEnvironment if one is missing."""
    products = Path(config.path)
    if _PRODUCTS not in products.name:
        raise BadEnvironment(
            f"path names no file of products: {products.name!r}",
            where=config.path,
            fix=f"path: {_PRODUCTS}.json or {_PRODUCTS}_1000.json, with its items_ins_v2 file in the same folder",
        )
    files = {"products": products, "attributes": products.with_name(products.name.replace(_PRODUCTS, "items_ins_v2"))}
    if config.goals == "human":
        files["human"] = products.with_name("items_human_ins.json")
    for file in files.values():
        if not file.is_file():
            raise BadEnvironment(f"there is no file {file.name}", where=str(file), fix=GET_IT)
    return files


@lru_cache(maxsize=16)
def _hash(path: str, size: int, changed: int) -> str:
    with open(path, "rb") as file:
        return file_digest(file, "sha256").hexdigest()


def fingerprint(config: WebShopConfig) -> dict[str, str]:
    """Return the hash of each published file, and {} for a generated shop. BadEnvironment if one cannot be read."""
    if config.data != "file":
        return {}
    hashes = {}
    for name, path in published_files(config).items():
        try:
            about = path.stat()
            hashes[f"{name}_sha256"] = _hash(str(path), about.st_size, about.st_mtime_ns)
        except OSError as error:
            raise BadEnvironment(f"cannot read the data: {error}", where=str(path), fix=GET_IT) from None
    return hashes


class FileShop:
    """A converted shop, see `file_shop`."""

    window = WINDOW

    def __init__(self, database: Path) -> None:
        self.database = database
        self._connections: dict[int, sqlite3.Connection] = {}
        self._products: dict[str, Product] = {}

    def _rows(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        """Return rows of the database. Raises BadEnvironment if it is damaged."""
        try:
            process = os.getpid()  # a connection must not be used in a forked process
            if process not in self._connections:
                self._connections[process] = sqlite3.connect(
                    f"{self.database.resolve().as_uri()}?mode=ro", uri=True, check_same_thread=False
                )
            return self._connections[process].execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise BadEnvironment(
                f"the converted shop cannot be read: {error}", where=str(self.database), fix=_MADE_AGAIN
            ) from None

    @cached_property
    def index(self) -> Postings:
        """The search index, read when it is first needed. BadEnvironment if it is damaged or of other products."""
        from plat_envs.lucene import load

        path = _index_of(self.database)
        index = load(path)
        if index.ids != tuple(sorted(name for (name,) in self._rows("SELECT id FROM products"))):
            raise BadEnvironment("the search index has other products than the shop", where=str(path), fix=_MADE_AGAIN)
        return index

    @cached_property
    def goals(self) -> tuple[str, ...]:
        """The ids of goals: the product's, `/`, the place of its instruction, `.`, the combination of options."""
        rows = self._rows("SELECT id, place, goals FROM instructions ORDER BY place")
        return tuple(f"{name}/{place}.{number}" for name, place, count in rows for number in range(count))

    def goal(self, goal_id: str) -> Goal:
        """Return the goal with an id of `goals`, for example `B07XYZ/12.0`: the first options of instruction 12."""
        name, _, rest = goal_id.partition("/")
        place, _, number = rest.partition(".")
        ((content,),) = self._rows("SELECT content FROM instructions WHERE place = ?", place)
        row = json.loads(content)
        options = None if row["options"] is None else tuple(row["options"])
        instruction = Instruction(row["text"], tuple(row["attributes"]), options)
        return goal_of(self.product(name), instruction, int(number), goal_id)

    def product(self, product_id: str) -> Product:
        if product_id not in self._products:
            if len(self._products) >= 10_000:
                self._products.clear()
            ((content,),) = self._rows("SELECT product FROM products WHERE id = ?", product_id)
            self._products[product_id] = from_row(json.loads(content))
        return self._products[product_id]

    def search(self, text: str) -> tuple[str, ...]:
        return tuple(product_id for product_id, _ in self.index.search(text, HITS))


def _index_of(database: Path) -> Path:
    return database.with_suffix(".npz")


@lru_cache(maxsize=4)
def _opened(database: Path) -> FileShop:
    return FileShop(database)


def file_shop(config: WebShopConfig) -> FileShop:
    """Return the published shop; convert its files if that was not done yet, which takes minutes for the full set.

    Raises BadEnvironment if a file is missing, cannot be read or has wrong fields, or if the conversion cannot be
    written.
    """
    files = published_files(config)
    digest = sha256(json.dumps([FORMAT, config.goals, fingerprint(config)]).encode()).hexdigest()[:16]
    folder = Path(config.cache) if config.cache else files["products"].parent
    database = folder / f"webshop-{digest}.sqlite"
    if not (database.is_file() and _index_of(database).is_file()):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _convert(files, config.goals, database)
        except (OSError, sqlite3.Error) as error:
            raise BadEnvironment(
                f"cannot write the converted shop: {error}",
                where=str(folder),
                fix="cache: a folder to write into, on a disk with space",
            ) from None
    return _opened(database)


def _convert(files: dict[str, Path], goals: str, database: Path) -> None:
    """Write database and index, each complete or not at all; the database last."""
    from plat_envs.lucene import build

    with scratch_folder(database.parent) as folder:
        made, index = folder / database.name, folder / "index.npz"
        with closing(sqlite3.connect(made)) as connection, connection:
            connection.executescript(_TABLES)
            build(_stored(files, goals, connection)).save(index)
        index.replace(_index_of(database))
        made.replace(database)


def _stored(files: dict[str, Path], goals: str, connection: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    """Store products and instructions; yield (id, text) of each product for the index."""
    for product, instructions in read_shop(files, goals):
        connection.execute("INSERT INTO products VALUES (?, ?)", (product.id, json.dumps(as_row(product))))
        connection.executemany(
            "INSERT INTO instructions (id, goals, content) VALUES (?, ?, ?)",
            [(product.id, goal_count(product, one), json.dumps(asdict(one))) for one in instructions],
        )
        yield product.id, searched_text(product)


def read_shop(files: dict[str, Path], goals: str) -> Iterator[tuple[Product, list[Instruction]]]:
    """Yield the different products and their instructions. BadEnvironment for a file that is not as WebShop has it."""
    attributes = read_object(files["attributes"])
    people = read_object(files["human"]) if goals == "human" else {}
    seen: set[str] = set()
    for number, row in enumerate(read_items(files["products"])):
        product = product_of(row, attributes, f"{files['products']}: item {number + 1}")
        if product is None or product.id in seen:
            continue
        seen.add(product.id)
        where = f"{files['human' if goals == 'human' else 'attributes']}: {product.id}"
        if goals == "human":
            yield product, human(people.get(product.id, []), where)
        else:
            yield product, synthetic(attributes.get(product.id, {}), where)


# A folder for files that are being made. One that a killed process has left is removed by the next.


@contextmanager
def scratch_folder(parent: Path) -> Iterator[Path]:
    """Make a folder below `parent` for the block; remove those whose process on this host has ended."""
    host = f"converting-{socket.gethostname()}-"  # other hosts may share `parent`: their processes are not seen here
    for left in parent.glob("converting-*"):
        owner = re.fullmatch(re.escape(host) + r"(\d+)-\w+", left.name)
        if owner and not _lives(int(owner[1])):
            shutil.rmtree(left, ignore_errors=True)
    with TemporaryDirectory(prefix=f"{host}{os.getpid()}-", dir=parent) as folder:
        yield Path(folder)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except PermissionError:  # it is another user's
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True
