"""Results of earlier runs of the same settings, kept as a bundle, beside which the runs of a report are shown."""
