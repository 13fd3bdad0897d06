"""Turn an experiment file into its matrix of runs, each with an identity.

`reading` reads files and overrides, `expansion` makes the matrix and its runs, `composition` makes the config of a run,
and `identity` its id. CONTRIBUTING.md follows an override through the modules.
"""
