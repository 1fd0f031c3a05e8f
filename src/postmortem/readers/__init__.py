"""Evidence to facts: each reader opens one kind of evidence and concludes nothing."""
