"""What the paper says an artifact shows, as checks with a verdict."""
