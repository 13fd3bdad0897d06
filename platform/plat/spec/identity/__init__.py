"""The id of a run, its recorded config, and the plug-in code in its identity."""
