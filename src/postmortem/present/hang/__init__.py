"""The report on live processes: facts and conclusions to blocks and JSON."""
