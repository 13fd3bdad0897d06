"""Estimates over the runs of a layout: a quantity in one condition, or its change between two."""
