"""Nodes that try each other: who can talk to whom, at which stage it ends, and why."""
