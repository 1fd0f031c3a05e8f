"""The C heap, buffers, and memory that ran out."""
