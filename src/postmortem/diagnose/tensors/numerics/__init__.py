"""Values that went wrong."""
