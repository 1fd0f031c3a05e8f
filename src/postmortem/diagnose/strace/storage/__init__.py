"""Full file systems, quotas, shared memory."""
