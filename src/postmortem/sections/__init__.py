"""Facts to blocks, and facts to the fields of the JSON report."""
