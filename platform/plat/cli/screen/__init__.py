"""Output for people: tables, reports, the live view, errors."""
