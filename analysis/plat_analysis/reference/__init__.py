"""Results of earlier runs of the same settings, kept as a bundle, shown beside the runs of a report."""
