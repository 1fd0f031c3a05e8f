"""The report on rank logs: facts and conclusions to blocks and JSON."""
