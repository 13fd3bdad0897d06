"""Scripts for the people who develop plat. Nothing here is part of the wheel."""
