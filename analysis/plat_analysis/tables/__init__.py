"""Tables of success (Table 4), of what training taught, of any measures, and of runs and trials."""
