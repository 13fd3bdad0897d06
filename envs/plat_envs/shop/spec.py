"""The specification of the environment `webshop`."""

from __future__ import annotations

from os import SEEK_END
from pathlib import Path

from plat_envs.api import EnvironmentSpec, Need
from plat_envs.environment_errors import BadEnvironment
from plat_envs.shop.catalogue import generated_shop
from plat_envs.shop.chat import ChatShopper
from plat_envs.shop.compact import CompactShopper
from plat_envs.shop.file_shop import file_shop, fingerprint, published_files, read_shop
from plat_envs.shop.product import WebShopConfig
from plat_envs.shop.published import GET_IT, read_items
from plat_envs.shop.shopper import Shopper

# What runs of `webshop` need beside this package: the published files, whole.

QUICKLY = 50_000_000  # files of this size together are read whole in seconds [bytes]
_END = 1000  # of a file, without the blanks behind it [bytes]


def needs(config: WebShopConfig, whole: int = QUICKLY) -> list[Need]:
    """Return the files of a published shop. Raises BadEnvironment if one is missing, damaged or of another form.

    All products are read as a run reads them; where the files have more than `whole` bytes, only the first product,
    and the end of each file.
    """
    if config.data != "file":
        return []
    files = published_files(config)
    if sum(path.stat().st_size for path in files.values()) <= whole:
        for _ in read_shop(files, config.goals):
            pass
    else:
        next(read_items(files["products"]), None)
        for name, path in files.items():
            _check_end(path, b"]" if name == "products" else b"}")
    return [Need(f"the {name} of WebShop in {path}") for name, path in files.items()]


def _check_end(path: Path, sign: bytes) -> None:
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, SEEK_END) - _END))
            end = file.read().rstrip()
    except OSError as error:
        raise BadEnvironment(f"cannot read the data: {error}", where=str(path), fix=GET_IT) from None
    if not end.endswith(sign):
        what = f"the file does not end with {sign.decode()}, so its end is missing"
        raise BadEnvironment(what, where=str(path), fix=GET_IT)


def make(config: WebShopConfig, split: str, rendering: str) -> Shopper:
    """Make the environment. Raises BadEnvironment for an unknown split or rendering, and for data that do not fit."""
    if rendering == "chat":
        shop = file_shop(config) if config.data == "file" else generated_shop(config.catalogue, config.products)
        return ChatShopper(config, split, rendering, shop)
    if rendering == "compact" and config.data == "file":
        raise BadEnvironment(
            "webshop: data 'file' has no compact rendering", fix="train.rendering: chat, or data: generated"
        )
    return CompactShopper(config, split, rendering)


def generated(config: WebShopConfig) -> bool:
    """Return True unless the shop is published files: their first use converts them, which planning does not."""
    return config.data == "generated"


SPEC = EnvironmentSpec(
    name="webshop",
    config_type=WebShopConfig,
    make=make,
    version="1",
    fingerprint=fingerprint,
    countable=generated,
    plenty=512,
    needs=needs,
)
