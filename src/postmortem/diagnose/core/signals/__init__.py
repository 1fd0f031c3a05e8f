"""What the fatal signal and its address say."""
