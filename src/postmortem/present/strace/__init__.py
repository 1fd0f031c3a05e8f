"""The report on system-call logs: facts and conclusions to blocks and JSON."""
