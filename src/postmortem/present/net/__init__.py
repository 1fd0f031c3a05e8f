"""What nodes saw of each other, as blocks and JSON."""
