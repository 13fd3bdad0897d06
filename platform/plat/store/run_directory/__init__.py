"""One run on disk: its files, its state, its lease, and its attempts with their events and checkpoints."""
