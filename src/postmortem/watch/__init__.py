"""Watching live processes over time, at a cost that can be left on."""
