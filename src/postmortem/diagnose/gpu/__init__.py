"""Rules over core dumps of GPUs."""
