"""Compose a run's config from the Hydra groups, the file and the overrides, and check its types."""
