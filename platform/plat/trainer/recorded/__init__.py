"""The trainer `recorded`: replay runs that were trained elsewhere, from files that `plat import` writes."""
