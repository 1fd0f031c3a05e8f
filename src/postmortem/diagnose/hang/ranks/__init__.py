"""One rank against the others."""
