"""Rules over snapshots of PyTorch's GPU memory."""
