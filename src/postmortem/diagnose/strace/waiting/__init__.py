"""What tasks wait for when the log ends."""
