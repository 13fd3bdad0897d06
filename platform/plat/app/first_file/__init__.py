"""Write a first experiment file for a script of the user: `plat init train.py`."""
