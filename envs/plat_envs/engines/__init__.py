"""Search engines that environments share. They need numpy and `regex`, and load them when they are used."""
