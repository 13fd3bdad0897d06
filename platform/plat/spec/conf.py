"""The Hydra config groups of a trainer. Each option of a group is composed once, however many runs use it.

A trainer's conf module holds `config.yaml` (a defaults list and root values) and one folder of options per group. An
option has no nested defaults list and no interpolation, so the composition of a run is the merge, in the order of the
defaults list, of what `hydra.compose` gives for each option alone. An option that is a plain mapping is read with
OmegaConf's own loader, as Hydra reads it; Hydra is imported for the others only. Tests hold that all this equals
`hydra.compose` of the whole.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module, resources
from pathlib import Path
from typing import Any

from plat.errors import SpecError
from plat.spec.leaf import first_line
from plat.spec.schema import plain
from plat.spec.yaml_reader import Document, read
from plat.suggest import mend

VERSION_BASE = "1.3"
HEADER_LINE = re.compile(r"\s*#\s*@")  # as Hydra knows them: the first lines of a file, blank ones apart


class Conf:
    """The groups of one conf module, in the order in which they are merged."""

    def __init__(self, module: str) -> None:
        self.module = module
        try:
            import_module(module)
            self.folder = Path(str(resources.files(module)))
        except (ImportError, TypeError) as error:
            raise SpecError(
                f"the config module {module!r} cannot be imported: {first_line(error)}",
                mend="reinstall the package that provides the trainer",
            ) from None
        self.root_file: Document = read(self.folder / "config.yaml")
        if not isinstance(self.root_file.data, dict):
            raise SpecError(
                "config.yaml is not a mapping", where=self.root_file.where(), mend="write `defaults:` first"
            )
        self.root: dict[str, Any] = {key: value for key, value in self.root_file.data.items() if key != "defaults"}
        self.order: list[str] = []  # group names and "_self_"
        self.defaults: dict[str, str] = {}
        self.places: dict[str, str] = {}  # group name -> place of its entry in the defaults list
        self._read_defaults()
        self.options = {group: self._options(group) for group in self.defaults}
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
                raise SpecError(f"a defaults list entry {entry!r}", where=where, mend="write `- group: option`")
        if "_self_" not in self.order:
            self.order.append("_self_")

    def _options(self, group: str) -> tuple[str, ...]:
        folder = self.folder / group
        return tuple(sorted(path.stem for path in folder.glob("*.yaml"))) if folder.is_dir() else ()

    def option_file(self, group: str, option: str) -> Path:
        """The YAML file of an option."""
        return self.folder / group / f"{option}.yaml"

    def check_option(self, group: str, option: Any, known: tuple[str, ...] | None = None) -> str:
        """The option's name; SpecError (without `where`) when the group has no file for it.

        known   the options that the message names; None: those with a file
        """
        name = option if isinstance(option, str) else str(option)
        if name not in self.options[group]:
            options = self.options[group] if known is None else known
            raise SpecError(f"{group}: unknown option {name!r}", mend=mend(name, options, "options"))
        return name

    def delta(self, group: str, option: str) -> dict[str, Any]:
        """What an option contributes to the whole config, as a nested plain dict."""
        self.compose([(group, option)])
        return self._deltas[group, option]

    def compose(self, wanted: Iterable[tuple[str, str]]) -> None:
        """Compose the (group, option) pairs that are not composed yet.

        Plain mappings are read here. Of the others, those without a `@package` line are composed in one call of Hydra,
        the rest in one call each.
        """
        uncomposed = [pair for pair in dict.fromkeys(wanted) if pair not in self._deltas]
        for pair in list(uncomposed):
            delta = self._read_plain(*pair)
            if delta is not None:
                self._keep(*pair, delta)
                uncomposed.remove(pair)
        if not uncomposed:
            return
        alone = [pair for pair in uncomposed if self._package(*pair)]
        together = [pair for pair in uncomposed if pair not in alone]
        with hydra_conf(self.module) as compose:
            if together:
                overrides = [f"+{group}@_{index}_={name}" for index, (group, name) in enumerate(together)]
                composed = self._call(compose, overrides, together)
                for index, (group, name) in enumerate(together):
                    self._keep(group, name, {group: composed[f"_{index}_"]} if f"_{index}_" in composed else {})
            for group, name in alone:
                self._keep(group, name, self._call(compose, [f"+{group}={name}"], [(group, name)]))

    def _read_plain(self, group: str, option: str) -> dict[str, Any] | None:
        """What Hydra makes of an option that is a plain mapping of values, without importing Hydra, which takes longer
        than everything else that `plat status` does; None for an option that needs Hydra (or that it must refuse)."""
        from omegaconf import OmegaConf
        from omegaconf.errors import OmegaConfBaseException
        from yaml import YAMLError

        package = self._package(group, option)
        if package not in ("", "_global_") or "/" in group:
            return None
        try:
            values = OmegaConf.to_container(OmegaConf.load(self.option_file(group, option)), resolve=False)
        except (OmegaConfBaseException, YAMLError, OSError, ValueError):
            return None
        if not isinstance(values, dict) or not values or "defaults" in values or "hydra" in values:
            return None
        delta: dict[str, Any] = plain(values)
        return delta if package else {group: delta}

    def _package(self, group: str, option: str) -> str:
        """What a `# @package NAME` line at the head of an option says, "" where there is none."""
        text = self.option_file(group, option).read_text(encoding="utf-8", errors="replace")
        head = itertools.takewhile(HEADER_LINE.match, filter(str.strip, text.splitlines()))
        return next((line.split()[-1] for line in head if "@package" in line), "")

    def _call(self, compose: Any, overrides: list[str], pairs: list[tuple[str, str]]) -> dict[str, Any]:
        from hydra.errors import HydraException
        from omegaconf import OmegaConf
        from omegaconf.errors import OmegaConfBaseException
        from yaml import YAMLError

        try:
            composed: dict[str, Any] = plain(OmegaConf.to_container(compose(overrides=overrides), resolve=False))
            return composed
        except (HydraException, OmegaConfBaseException, YAMLError, ValueError) as error:
            if len(pairs) > 1:  # compose the options singly, so that the wrong one raises
                for group, name in pairs:
                    self._call(compose, [f"+{group}@_0_={name}"], [(group, name)])
            where = str(self.option_file(*pairs[0]))
            raise SpecError(
                f"Hydra cannot compose it: {first_line(error)}", where=where, mend="correct this file"
            ) from None

    def _keep(self, group: str, option: str, delta: dict[str, Any]) -> None:
        """Remember what an option contributes; SpecError if it holds an interpolation."""
        if "${" in repr(delta):
            raise SpecError(
                "an interpolation in a config group",
                where=str(self.option_file(group, option)),
                mend="write the value itself",
            )
        self._deltas[group, option] = delta


@lru_cache(maxsize=64)
def conf_of(module: str) -> Conf:
    """The groups of a conf module, read once a process."""
    return Conf(module)


@contextmanager
def hydra_conf(module: str) -> Iterator[Any]:
    """`hydra.compose` over a conf module; whatever Hydra was initialised with before is put back."""
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
    """Plain `hydra.compose` of whole runs, typed by config_type: what tests and the benchmark compare with."""
    from hydra.core.config_store import ConfigStore
    from omegaconf import OmegaConf

    ConfigStore.instance().store(name="schema", node=config_type)
    with hydra_conf(module) as compose:
        yield lambda overrides: plain(OmegaConf.to_container(compose("config", overrides=overrides), enum_to_str=True))
