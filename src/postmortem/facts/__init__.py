"""What evidence says: immutable, typed, each with its place. No conclusions beyond definitions."""
