"""The verdict of every kind of report: one sentence for a reader who reads nothing else.

How sure it is, is said in one way (`grammar`); what is said is one file for each kind.
"""
