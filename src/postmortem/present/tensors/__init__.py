"""The report on tensors: facts to blocks and JSON."""
