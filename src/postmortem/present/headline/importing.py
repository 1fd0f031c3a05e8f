"""What an import says first."""

from postmortem.facts.importing import Importing


def headline(seen: Importing) -> str:
    """Return how an import went that no rule explains."""
    if seen.file is None:
        return f"import {seen.name} ended with status {seen.status} and said nothing"
    version = f" {seen.version}" if seen.version else ""
    return f"{seen.name}{version} is imported in {seen.seconds:.2f} s, from {seen.file}"
