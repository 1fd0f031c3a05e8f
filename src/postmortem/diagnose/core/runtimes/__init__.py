"""Ends of programs whose language brings its own run-time."""
