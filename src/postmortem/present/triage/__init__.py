"""One verdict over all evidence: the incident to words, blocks and JSON."""
