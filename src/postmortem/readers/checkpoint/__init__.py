"""Checkpoints: where their tensors lie, and what is in them. Nothing in them is ever executed."""
