"""What the comparison of two trainings says first."""

from postmortem.diagnose.numerics.parting import Difference, Parting


def headline(found: Parting) -> str:
    """Return the first module that parts, or that none does."""
    first = found.first
    if first is None:
        if found.unequal is None:
            return f"the same in all {found.compared} calls that both have"
        return f"no more than {found.tolerance:g} apart in the {found.compared} calls of both"
    return f"{module_words(first)} is the first to differ: {first.name}, {first.what}"


def module_words(one: Difference) -> str:
    """Return ``layers.0.attn (Attention)``."""
    return f"{one.module or 'the model'} ({one.class_name})"
