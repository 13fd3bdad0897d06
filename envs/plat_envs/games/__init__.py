"""Games on a grid: Sokoban and FrozenLake."""
