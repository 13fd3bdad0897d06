"""The verbs of the command line: each parses its arguments, calls a use case and prints the result."""
