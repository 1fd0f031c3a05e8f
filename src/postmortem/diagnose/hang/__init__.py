"""Rules over live processes: who holds up whom, and in what."""
