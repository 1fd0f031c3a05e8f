"""Peers, addresses, names."""
