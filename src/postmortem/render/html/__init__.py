"""Writes a report as one HTML file: no network, no outside script, for light, dark and paper."""

from postmortem.render.html.document import render

__all__ = ["render"]
