"""Write the numbers in the documentation from a bundle of results, so that none is written by hand."""
