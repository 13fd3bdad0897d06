"""What runs beside an untrusted program: a trusted launcher, and how its children give up their rights.

These files know only the standard library, because a box has nothing else.
"""
