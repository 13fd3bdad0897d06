"""Turns, budgets and prompts of an episode."""
