"""A run's config as verl's own configuration, and the checks before anything is submitted."""
