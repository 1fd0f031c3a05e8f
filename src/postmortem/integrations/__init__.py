"""Callbacks for trainers: each a few lines over the monitor."""
