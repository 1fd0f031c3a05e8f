"""A core's report: facts and conclusions to blocks and JSON."""
