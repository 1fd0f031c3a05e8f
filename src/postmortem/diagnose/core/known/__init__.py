"""What the knowledge base says of the words of a process."""
