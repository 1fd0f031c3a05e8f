"""One incident, one graph: events of all kinds of evidence, what explains what, and the roots."""
