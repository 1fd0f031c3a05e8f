"""Rules over tensors."""
