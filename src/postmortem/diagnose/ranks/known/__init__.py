"""Rules that look up what others have met before."""
