"""Flight files of the monitor: facts and conclusions to JSON."""
