"""Facts to conclusions: one folder for each kind of evidence, one file for each rule.

A rule knows no other rule and opens no file; rules are found by walking the folders.
"""
