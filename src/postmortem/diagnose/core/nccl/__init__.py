"""Collective communication: NCCL and gloo."""
