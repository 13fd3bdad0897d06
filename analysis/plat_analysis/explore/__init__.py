"""`explore.html`: one page with scripts on which a reader filters, groups and compares the runs of a report."""
