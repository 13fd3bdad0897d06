"""Questions with a checked answer."""
