"""Renderers: each draws a whole report to a text stream and looks at nothing else."""
