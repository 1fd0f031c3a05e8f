"""Rules over what processes held over time."""
