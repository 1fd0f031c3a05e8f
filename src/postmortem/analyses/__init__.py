"""Analyses: evidence in, one report out."""
