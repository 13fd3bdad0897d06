"""Plug-ins: what each group of entry points publishes, how it is loaded, and what of its code counts.

plat.trainers                a trainer: `plat.trainer.api.Trainer`
plat.default_trainers        a trainer for files that name none, by a key of theirs: `plat.trainer.finding`
plat.dispatchers             a way to execute runs: `plat.dispatch.dispatcher.Dispatcher`
plat.reports, plat.claims    a builder of tables and figures, a check of a claim: `plat_analysis.plugins`
plat.pruners                 what stops a run of a search by its own metrics: `plat.search.run_pruner.RunPruner`
plat.verbs                   a verb of the command line: `plat.cli.common.verb`, `plat.cli.common.VerbGroup`
plat.doctor                  a check of `plat doctor`: `plat.plugins.doctor`

A trainer may have further groups for its own config keys, as `plat.environments` (field metadata `plugin`).
"""
