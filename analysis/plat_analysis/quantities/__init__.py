"""Measures of one run: success at the peak and the end, or any metric at a step, as a median or a slope."""
