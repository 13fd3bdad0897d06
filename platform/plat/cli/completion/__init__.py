"""Answer a shell that completes a command line of `plat`. Nothing slow is imported: neither typer nor any verb."""
