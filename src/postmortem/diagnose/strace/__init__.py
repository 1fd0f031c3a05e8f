"""Rules over system-call logs."""
