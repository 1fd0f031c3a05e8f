"""Numbers that went bad while a model was trained."""
