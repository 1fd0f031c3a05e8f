"""What many nodes answered, as blocks and JSON."""
