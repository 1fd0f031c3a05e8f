"""From facts to conclusions."""
