"""Rules about jobs that never got as far as training."""
