"""Adapters to the tasks of other packages."""
