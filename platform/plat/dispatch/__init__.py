"""Dispatchers: where runs are executed. One protocol (`plat.dispatch.api`), one folder each."""
