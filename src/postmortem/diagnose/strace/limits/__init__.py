"""Limits of the process."""
