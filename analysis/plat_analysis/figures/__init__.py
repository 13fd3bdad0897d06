"""Figures as SVG and PNG: learning curves, paired changes, and the style that all share."""
