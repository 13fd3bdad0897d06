"""A command line in this process, and a store made once, for all suites of the platform."""

from __future__ import annotations

from plat_fixtures import empty_store, nothing_named, plat, project

__all__ = ["empty_store", "nothing_named", "plat", "project"]
