"""Use cases as functions that return data, shared by the command line and `import plat`."""
