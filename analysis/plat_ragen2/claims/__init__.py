"""Checks of claims that only RAGEN-2 makes, and the table of its readings."""
