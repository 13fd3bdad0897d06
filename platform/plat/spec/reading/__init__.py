"""Read user input: YAML with positions, experiment files, overrides."""
