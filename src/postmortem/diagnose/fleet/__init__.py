"""Rules over what many nodes answered."""
