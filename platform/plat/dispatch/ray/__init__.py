"""Hand runs to Ray and execute them in detached actors of Ray Core, named after their submission.

A run therefore continues after the command that submitted it has ended, and Ray restarts it elsewhere if its node is
lost. Ray Tune is not used: its trials end with the process that started them.
"""
