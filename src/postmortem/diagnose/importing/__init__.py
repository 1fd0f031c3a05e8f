"""Rules over what came of an import."""
