"""Rules over a core: how the process ended, and why."""
