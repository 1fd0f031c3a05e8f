"""Tables of what is known about libraries, functions and threads, and how to look it up."""
