"""Evidence to facts: one module per kind of evidence. A reader never concludes."""
