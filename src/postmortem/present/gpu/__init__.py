"""What GPUs did when a dump of them was written, as blocks and as JSON."""
