"""Compose the Hydra config groups of a trainer, each option once, however many runs use it.

A conf module holds `config.yaml` (a defaults list and root values) and one folder of options per group. Options have no
nested defaults list and no interpolation, so a run's composition is the merge of its options in the order of the
defaults list. Plain mappings are read as experiment files are, others with Hydra. The result equals `hydra.compose` of
the whole (tested), except that `010` is ten and `on` is a text, as in experiment files.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module, resources
from pathlib import Path
from typing import Any

from plat.errors import SpecError
from plat.plain_files import read_text
from plat.spec.composition.leaf import first_line
from plat.spec.composition.schema import plain
from plat.spec.reading.yaml_reader import Document, read
from plat.suggest import suggest

VERSION_BASE = "1.3"
HEADER_LINE = re.compile(r"\s*#\s*@")  # as in Hydra: only the first lines of a file, ignoring blank ones


class Conf:
    """The groups of one conf module, in the order of merging."""

    def __init__(self, module: str) -> None:
        self.module = module
        try:
            import_module(module)
            self.folder = Path(str(resources.files(module)))
        except (ImportError, TypeError) as error:
            what = f"the config module {module!r} cannot be imported: {first_line(error)}"
            raise SpecError(what, fix="reinstall the package that provides the trainer") from None
        self.root_file: Document = read(self.folder / "config.yaml")
        if not isinstance(self.root_file.data, dict):
            raise SpecError("config.yaml is not a mapping", where=self.root_file.where(), fix="write `defaults:` first")
        self.root: dict[str, Any] = {key: value for key, value in self.root_file.data.items() if key != "defaults"}
        self.order: list[str] = []  # group names and "_self_"
        self.defaults: dict[str, str] = {}
        self.places: dict[str, str] = {}  # group name -> place of its entry in the defaults list
        self._read_defaults()
        # group -> the options with a file; () for a folder that does not exist
        files = {group: (self.folder / group).glob("*.yaml") for group in self.defaults}
        self.options = {group: tuple(sorted(path.stem for path in paths)) for group, paths in files.items()}
        for group, option in self.defaults.items():
            try:
                self.check_option(group, option)
            except SpecError as error:
                error.where = self.places[group]
                raise
        self._deltas: dict[tuple[str, str], dict[str, Any]] = {}

    def _read_defaults(self) -> None:
        for index, entry in enumerate(self.root_file.data.get("defaults") or []):
            if entry == "_self_":
                self.order.append(entry)
            elif isinstance(entry, dict) and len(entry) == 1 and all(type(value) is str for value in entry.values()):
                self.order.extend(entry)
                self.defaults.update(entry)
                self.places.update(dict.fromkeys(entry, self.root_file.where("defaults", index)))
            elif entry != "schema":
                where = self.root_file.where("defaults", index)
                raise SpecError(f"a defaults list entry {entry!r}", where=where, fix="write `- group: option`")
        if "_self_" not in self.order:
            self.order.append("_self_")

    def option_file(self, group: str, option: str) -> Path:
        """Return the path of an option's YAML file, which may not exist."""
        return self.folder / group / f"{option}.yaml"

    def check_option(self, group: str, option: Any, known: tuple[str, ...] | None = None) -> str:
        """Return the option's name. Raises SpecError (without `where`) if the group has no file for it.

        known   the options that the message lists; None: those with a file
        """
        name = str(option)
        if name not in self.options[group]:
            options = self.options[group] if known is None else known
            raise SpecError(f"{group}: unknown option {name!r}", fix=suggest(name, options, "options"))
        return name

    def delta(self, group: str, option: str) -> dict[str, Any]:
        """Return the values that an option sets in the whole config, as a nested plain dict.

        It is cached: do not change it. Raises SpecError if Hydra cannot compose the option's file, or if a value is an
        interpolation.
        """
        if (group, option) not in self._deltas:
            delta = self._read_plain(group, option)
            delta = self._composed(group, option) if delta is None else delta
            if "${" in repr(delta):
                where = str(self.option_file(group, option))
                raise SpecError("an interpolation in a config group", where=where, fix="write the value itself")
            self._deltas[group, option] = delta
        return self._deltas[group, option]

    def _read_plain(self, group: str, option: str) -> dict[str, Any] | None:
        """Return the values of an option that is a plain mapping, as Hydra composes it; None if it needs Hydra."""
        package = self._package(group, option)
        if package not in ("", "_global_") or "/" in group:
            return None
        file = self.option_file(group, option)
        if not any(line.split("#")[0].strip(" -") for line in read_text(file, errors="replace").splitlines()):
            return {}
        values = read(file).data
        if not isinstance(values, dict) or not values or "defaults" in values or "hydra" in values:
            return None
        return values if package else {group: values}

    def _package(self, group: str, option: str) -> str:
        """Return the NAME of a `# @package NAME` line at the head of an option, or ""."""
        text = self.option_file(group, option).read_text(encoding="utf-8", errors="replace")
        head = itertools.takewhile(HEADER_LINE.match, filter(str.strip, text.splitlines()))
        return next((line.split()[-1] for line in head if "@package" in line), "")

    def _composed(self, group: str, option: str) -> dict[str, Any]:
        """Return the values of an option as Hydra composes it. Raises SpecError if Hydra cannot."""
        from hydra.errors import HydraException
        from omegaconf import OmegaConf
        from omegaconf.errors import OmegaConfBaseException
        from yaml import YAMLError

        package = self._package(group, option)
        override = f"+{group}={option}" if package else f"+{group}@_0_={option}"
        try:
            with hydra_conf(self.module) as compose:
                composed: dict[str, Any] = plain(OmegaConf.to_container(compose(overrides=[override]), resolve=False))
        except (HydraException, OmegaConfBaseException, YAMLError, ValueError) as error:
            what, where = f"Hydra cannot compose it: {first_line(error)}", str(self.option_file(group, option))
            raise SpecError(what, where=where, fix="correct this file") from None
        if package:
            return composed
        return {group: composed["_0_"]} if "_0_" in composed else {}


@lru_cache(maxsize=64)
def conf_of(module: str) -> Conf:
    """Return the groups of a conf module, cached per process."""
    return Conf(module)


@contextmanager
def hydra_conf(module: str) -> Iterator[Any]:
    """Yield `hydra.compose` for a conf module, and restore Hydra's earlier state afterwards."""
    from hydra import compose, initialize_config_module
    from hydra.core.global_hydra import GlobalHydra

    state = GlobalHydra.instance()
    before = state.hydra
    state.clear()
    try:
        with initialize_config_module(module, version_base=VERSION_BASE):
            yield compose
    finally:
        state.hydra = before


@contextmanager
def reference(module: str, config_type: type) -> Iterator[Callable[[list[str]], dict[str, Any]]]:
    """Yield a function from overrides to the config that Hydra itself composes, for tests and the benchmark."""
    from hydra.core.config_store import ConfigStore
    from omegaconf import OmegaConf

    ConfigStore.instance().store(name="schema", node=config_type)
    with hydra_conf(module) as compose:
        yield lambda overrides: plain(OmegaConf.to_container(compose("config", overrides=overrides), enum_to_str=True))
