"""Rules about ranks that did not call the same collective at the same time."""
