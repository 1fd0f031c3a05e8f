"""What PyTorch's allocator of GPU memory held, as blocks and as JSON."""
