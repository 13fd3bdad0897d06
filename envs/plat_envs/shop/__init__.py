"""The task `webshop`: search a shop for what an instruction describes, choose its options, and buy it."""
