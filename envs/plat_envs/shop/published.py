"""Products and goals in the files that WebShop publishes.

    items_shuffle*.json    a list of products; `nouns` (words of the title) is ours and may be there
    items_ins_v2*.json     id -> attributes, and instruction with its attributes
    items_human_ins.json   id -> instructions that people wrote

A price that is a range, and the limit of a goal, are drawn from ids, so that two runs have the same goals.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from plat_envs.environment_errors import BadEnvironment
from plat_envs.shop.catalogue import limit_text, options_text, price_limit
from plat_envs.shop.product import Goal, Product

# JSON files that are too large for memory: the items of a list, one after the other.

CHUNK = 1 << 16  # read at a time [characters]
LARGEST = 1 << 26  # an item, at most [characters]
GET_IT = "get the file again from the WebShop project, which publishes it"


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object of a file. Raises BadEnvironment if it cannot be read or holds something else."""
    try:
        content = json.loads(_regular(path).read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError("it is not an object with the ids of products")
    except (OSError, ValueError, RecursionError) as error:
        raise BadEnvironment(f"cannot read the data: {error}", where=str(path), fix=GET_IT) from None
    return content


def read_items(path: Path, chunk: int = CHUNK) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON list. Raises BadEnvironment if the file cannot be read or holds something else."""
    count = 1
    try:
        with _regular(path).open(encoding="utf-8") as file:
            text = _begun("", file, chunk)
            if not text.startswith("["):
                raise ValueError("the file is not a list")
            text = _begun(text[1:], file, chunk)
            while not text.startswith("]"):
                item, text = _first(text, file, chunk)
                yield item
                text, count = _begun(text, file, chunk), count + 1
                if text.startswith(","):
                    text = _begun(text[1:], file, chunk)
                    if text.startswith("]"):
                        raise ValueError("there is none after the last comma")
                elif not text.startswith("]"):
                    raise ValueError("there is no comma before it" if text else "the list has no end")
            if rest := _begun(text[1:], file, chunk):
                raise ValueError(f"the list is closed, and more text follows: {rest[:20]!r}")
    except (OSError, ValueError, RecursionError) as error:
        raise BadEnvironment(f"cannot read item {count} of the list: {error}", where=str(path), fix=GET_IT) from None


def _begun(text: str, file: TextIO, chunk: int) -> str:
    """Return the text without blanks at its beginning; read on in the file until there is something else."""
    while not (text := text.lstrip(" \t\r\n")) and (more := file.read(chunk)):
        text = more
    return text


def _first(text: str, file: TextIO, chunk: int) -> tuple[dict[str, Any], str]:
    """Return the object at the beginning of a text and the rest; read on in the file until the object is complete."""
    while True:
        try:
            item, end = json.JSONDecoder().raw_decode(text)
        except ValueError:
            more = file.read(max(chunk, len(text))) if len(text) < LARGEST else ""
            if not more:
                raise
            text += more
        else:
            if not isinstance(item, dict):
                raise ValueError("it is not an object")
            return item, text[end:]


def _regular(path: Path) -> Path:
    """Return the path. Raises OSError unless it is a file: reading a pipe may never end."""
    if not path.is_file():
        raise OSError("there is no such file")
    return path


FIELDS = (  # that a product must have
    *("asin", "name", "full_description", "small_description", "customization_options", "query"),
    "product_category",
)
NO_PRICE = 100.0  # of a product without a price, as released
_ID = re.compile(r"[A-Za-z0-9_-]+")
_FUNCTION_WORDS = frozenset("a an and are as at by for from in into is it of on or per the to up with your".split())


@dataclass(frozen=True)
class Instruction:
    """What one instruction of a product asks for. `options`: None means one goal for each combination of them."""

    text: str
    attributes: tuple[str, ...]
    options: tuple[str, ...] | None = None


def product_of(row: Mapping[str, Any], attributes: Mapping[str, Any], where: str) -> Product | None:
    """Return the product of a row; None for one without a proper id, as released.

    Raises BadEnvironment for a field that is missing or of a wrong type, and for an id that has other signs than
    letters, digits, - and _.
    """
    missing = [name for name in FIELDS if name not in row]
    if missing:
        raise BadEnvironment(f"a product has no field {missing[0]!r}", where=where, fix=f"fields {', '.join(FIELDS)}")
    name = str(row["asin"])
    if name == "nan" or len(name) > 10:
        return None
    if not _ID.fullmatch(name):
        raise BadEnvironment(f"a product has the id {name!r}", where=where, fix="asin: letters, digits, - and _")
    try:
        prices = _prices(row.get("pricing"))
        title, bullets = str(row["name"]), row["small_description"]
        bullets = bullets if isinstance(bullets, list) else [bullets]
        given = row.get("nouns")
        return Product(
            id=name,
            title=title,
            price=prices[0] if len(prices) == 1 else random.Random(f"webshop/price/{name}").uniform(*prices[:2]),
            query=str(row["query"]).lower().strip(),
            path=tuple(part.strip() for part in str(row["product_category"]).split("›")),
            nouns=title_nouns(title) if given is None else tuple(noun.lower() for noun in _texts("nouns", given)),
            options=_options(row["customization_options"]),
            attributes=_texts("attributes in items_ins_v2", attributes.get(name, {}).get("attributes", [])),
            bullets=tuple(str(bullet) for bullet in bullets if bullet is not None),
            description=str(row["full_description"] or ""),
            price_tag=" to ".join(f"${price}" for price in prices[:2]),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BadEnvironment(
            f"product {name} has a field of a wrong type: {error!r}", where=where, fix="the files as WebShop has them"
        ) from None


def _texts(field: str, value: Any) -> tuple[str, ...]:
    """Return a list of texts. Raises TypeError for anything else; one text is no list of letters."""
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise TypeError(f"{field} is no list of texts: {str(value)[:60]}")
    return tuple(value)


def _prices(pricing: Any) -> list[float]:
    """Return the lowest and highest price of `$12.99 to $15.00`, or the only one."""
    found = [float(re.sub(r"[^\d.]", "", part)) for part in str(pricing or "").split("$")[1:]]
    return found or [NO_PRICE]


def _options(groups: Mapping[str, Any] | None) -> dict[str, tuple[str, ...]]:
    """Return the options in small letters; `/` stands between bars, as released."""
    return {
        name.lower(): tuple(value["value"].strip().replace("/", " | ").lower() for value in values)
        for name, values in (groups or {}).items()
        if values is not None
    }


def title_nouns(title: str) -> tuple[str, ...]:
    """Return the words of a title without numbers and function words, which stand for its nouns.

    The released score asks a tagger which words are nouns. To use those, add them to the products as `nouns`.
    """
    return tuple(word for word in re.findall(r"[^\W\d_]{2,}", title.lower()) if word not in _FUNCTION_WORDS)


def synthetic(entry: Mapping[str, Any], where: str) -> list[Instruction]:
    """Return the instruction of an entry of items_ins_v2*.json, if it has one. BadEnvironment for a wrong type."""
    try:
        text = entry.get("instruction")
        attributes = _texts("instruction_attributes", entry.get("instruction_attributes") or [])
    except (AttributeError, TypeError) as error:
        raise BadEnvironment(
            f"not an entry of attributes: {error!r}", where=where, fix="the files as WebShop has them"
        ) from None
    return [Instruction(str(text), attributes)] if text is not None and attributes else []


def human(entries: Any, where: str) -> list[Instruction]:
    """Return the instructions of an entry of items_human_ins.json that name attributes. BadEnvironment for others."""
    try:
        return [
            Instruction(
                entry["instruction"].strip("."),
                _texts("instruction_attributes", entry["instruction_attributes"]),
                _texts("instruction_options", entry["instruction_options"]),
            )
            for entry in entries
            if entry["instruction_attributes"]
        ]
    except (AttributeError, KeyError, TypeError) as error:
        raise BadEnvironment(
            f"not an instruction: {error!r}",
            where=where,
            fix="fields instruction, instruction_attributes and instruction_options",
        ) from None


def goal_count(product: Product, instruction: Instruction) -> int:
    """Return how many goals an instruction makes."""
    return math.prod(map(len, product.options.values())) if instruction.options is None else 1


def goal_of(product: Product, instruction: Instruction, number: int, goal_id: str) -> Goal:
    """Return a goal. `number` selects the combination of options where the instruction leaves them open."""
    limit = price_limit(product.price, goal_id)
    options, said = instruction.options, ""
    if options is None:
        chosen = _combination(product.options, number)
        options, said = tuple(chosen.values()), options_text(chosen)
    text = f"{instruction.text}{said}{limit_text(limit)}"
    return Goal(product.id, text, instruction.attributes, options, limit, product.query, product.path, product.nouns)


def _combination(options: Mapping[str, tuple[str, ...]], number: int) -> dict[str, str]:
    """Return the combination of this number: groups in the order of their names, the last one varies fastest."""
    chosen = {}
    for name in sorted(options, reverse=True):
        number, position = divmod(number, len(options[name]))
        chosen[name] = options[name][position]
    return dict(sorted(chosen.items()))


def as_row(product: Product) -> dict[str, Any]:
    """Return a product as JSON can hold it."""
    return asdict(product)


def from_row(row: Mapping[str, Any]) -> Product:
    """Return the product of `as_row`."""
    lists = ("path", "nouns", "attributes", "bullets")
    values: dict[str, Any] = {**row, **{name: tuple(row[name]) for name in lists}}
    values["options"] = {name: tuple(group) for name, group in row["options"].items()}
    return Product(**values)
