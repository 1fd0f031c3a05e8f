"""Rules about jobs that somebody stopped."""
