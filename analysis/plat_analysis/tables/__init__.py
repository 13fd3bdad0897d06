"""Tables of success: peaks per cell (Table 4), what training taught, and the list of runs."""
