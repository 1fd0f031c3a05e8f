"""What a comparison of two trainings says first."""

from __future__ import annotations

from postmortem.diagnose.numerics.parting import Difference, Parting


def headline(found: Parting) -> str:
    """Return the first module that parts, or how alike the two are."""
    first = found.first
    if first is None:
        if found.unequal is None:
            return f"the same in all {found.compared} calls that both have"
        return f"no more than {found.tolerance:g} apart in the {found.compared} calls of both"
    return f"{module(first)} is the first to part: {first.name}, {first.what}"


def module(one: Difference) -> str:
    """Return the module of a difference with its class."""
    return f"{one.module or 'the model'} ({one.class_name})"
