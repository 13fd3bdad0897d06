"""Numbers in the documentation: written by a command from a bundle of results, never by hand."""
