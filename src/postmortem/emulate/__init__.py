"""Faults on purpose: a command meets one of them, and nothing of it is left."""
