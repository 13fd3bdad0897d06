"""Judge two versions of a command: `plat judge`."""
