"""The JSON of every verb, as types from which `plat schema VERB` makes a JSON Schema.

A verb names its type in `@verb(...)`. Keys that its type lacks are mistakes, except where the type is `further_keys`.
A test validates what every verb prints.
"""
