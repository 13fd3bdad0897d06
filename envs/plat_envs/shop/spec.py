"""The specification of the environment `webshop`."""

from __future__ import annotations

from plat_envs.api import EnvironmentSpec
from plat_envs.environment_errors import BadEnvironment
from plat_envs.shop.chat import ChatShopper
from plat_envs.shop.compact import CompactShopper
from plat_envs.shop.config import WebShopConfig
from plat_envs.shop.file_shop import file_shop, fingerprint
from plat_envs.shop.needs import needs
from plat_envs.shop.shopper import Shopper
from plat_envs.shop.shops import generated_shop


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
