"""Libraries and files that do not fit together."""
