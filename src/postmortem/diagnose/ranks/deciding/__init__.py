"""Who failed first: decided once, from all ranks together, before the rules explain it."""
