"""The command line, a home and experiment files, for tests of the verbs."""

from __future__ import annotations

from plat_fixtures import empty_store, home, nothing_named, plat, project, spec

__all__ = ["empty_store", "home", "nothing_named", "plat", "project", "spec"]
