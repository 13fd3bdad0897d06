"""The beginning of search files for the toy trainer; a test adds how to search, for how long, and on which seeds."""

from __future__ import annotations

TOY_SEARCH = """
title: A toy search
base: {trainer: "plat_toy:Toy"}
space:
  train.iterations: {int: [3, 8]}
  at: {int: [10, 50]}
objectives: [{maximize: success, of: best}]
"""
