"""Read user input: YAML with positions, experiment files, overrides, option names of other code bases."""
