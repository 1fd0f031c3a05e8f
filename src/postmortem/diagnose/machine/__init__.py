"""What each fact about a machine means for the evidence of a crash, and what mends it."""
