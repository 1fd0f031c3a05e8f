"""What one process is in, whatever the others do."""
