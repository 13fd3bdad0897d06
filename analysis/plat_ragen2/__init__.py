"""What only the paper RAGEN-2 needs of the analysis: regimes, figures of its rewards and gradients, its own checks."""
