"""Rules over what nodes saw of each other."""
