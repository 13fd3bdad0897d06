"""Filters of section 4: which prompts or trajectories of a batch are kept for the update. One file for each rule."""
