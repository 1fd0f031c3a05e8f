"""Rules over the logs of jobs with many ranks."""
