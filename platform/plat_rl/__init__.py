"""The filtered trainer of RAGEN-2: filter rules and losses, the trainers `embedded` and `verl`, their config groups."""
