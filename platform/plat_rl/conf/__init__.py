"""Hydra config groups of the built-in trainers: task, algorithm, model, filter, scale (later groups win).

To keep planning fast, a group file has no defaults list and no interpolation: `plat.spec.composition.conf` composes
each option once and merges. The schema, defaults and comments of every key are the dataclasses in
`plat_rl.run_config`.
"""
