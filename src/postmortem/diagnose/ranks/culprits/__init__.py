"""Rules about the rank that failed first."""
