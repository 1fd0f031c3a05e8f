"""Readers: evidence to facts. A reader never concludes."""
