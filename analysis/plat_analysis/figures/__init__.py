"""Figures as SVG, PDF and PNG, and the style that all of them share."""
