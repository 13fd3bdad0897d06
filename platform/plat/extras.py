"""Check that the packages of an extra of plat are installed, with one message for missing ones."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, requires, version

from plat.errors import SpecError


def packages_of(extra: str) -> list[str]:
    """Return the distributions that an extra adds to plat, as `pyproject.toml` names them; [] in a source tree."""
    from packaging.requirements import Requirement

    try:
        wanted = [Requirement(text) for text in requires("plat") or ()]
    except PackageNotFoundError:
        return []
    return [one.name for one in wanted if one.marker is not None and one.marker.evaluate({"extra": extra})]


def is_installed(package: str) -> bool:
    """Return True if a distribution is installed, whether or not it can be imported."""
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def require_extra(extra: str, user: str, where: str) -> None:
    """Raise SpecError if a package of an extra is not installed.

    extra  a name of `[project.optional-dependencies]` in pyproject.toml
    user   what needs the extra, e.g. "plat tune"
    where  the option that asks for it, e.g. "trainer"
    """
    missing = [name for name in packages_of(extra) if not is_installed(name)]
    if missing:
        what = f"{user} needs packages that are not installed: {', '.join(missing)}"
        raise SpecError(what, where=where, fix=f"pip install 'plat[{extra}]'")
