"""The report on a machine."""
