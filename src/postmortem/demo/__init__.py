"""Sample programs that crash for real, each in a way that training jobs do.

The files named after a kind are run as programs by `postmortem demo`, never imported.
"""
