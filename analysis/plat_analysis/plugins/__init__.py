"""Report builders and claim checks by entry point: finding them, checking their arguments, naming what failed."""
