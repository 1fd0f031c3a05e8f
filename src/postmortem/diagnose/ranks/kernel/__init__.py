"""What the kernel says of the ranks, their GPUs and their hosts."""
