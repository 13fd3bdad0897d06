"""The specification of the environment `webshop`."""

from __future__ import annotations

from plat_envs.api import EnvironmentSpec
from plat_envs.shop.chat import ChatShopper
from plat_envs.shop.compact import CompactShopper
from plat_envs.shop.config import WebShopConfig
from plat_envs.shop.shopper import Shopper
from plat_envs.shop.shops import generated_shop


def make(config: WebShopConfig, split: str, rendering: str) -> Shopper:
    """Make the environment. Raises BadEnvironment for an unknown split or rendering, and for data that do not fit."""
    if rendering == "chat":
        return ChatShopper(config, split, rendering, generated_shop(config.catalogue, config.products))
    return CompactShopper(config, split, rendering)


SPEC = EnvironmentSpec(name="webshop", config_type=WebShopConfig, make=make, version="1", plenty=150)
