"""The interpreter, its extensions, and how its processes start and end."""
