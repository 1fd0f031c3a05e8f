"""The report: one immutable value, rendered many ways."""
