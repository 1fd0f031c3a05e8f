"""How processes end that a signal kills."""
