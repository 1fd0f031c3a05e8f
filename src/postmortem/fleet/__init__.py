"""One command on every node of a job, by the engine that is there, and one report."""
