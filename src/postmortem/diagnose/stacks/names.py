"""Names as the default view shows them: short enough to read, exact enough to search for."""

import re
from functools import lru_cache

from postmortem.knowledge.symbols import LONGEST, symbol
from postmortem.patterns import Pattern

LONGEST_SHOWN = 100
"""Characters of a shortened name; longer ones lose their middle."""

_WRAPPED = Pattern(r"CompileTimeFunctionPointer<|WrapFunctionInto(?:Runtime)?Functor_?<")
_DISPATCHER = "c10::impl::"
_TEMPLATE = Pattern(r"(\w+)<…>")
_SHORT_ARGUMENTS = 20
"""Characters of template arguments that are shown: ``<float>``, ``<long, 4>``."""
_PATH_MARKERS = ("/site-packages/", "/dist-packages/")


@lru_cache(maxsize=8192)
def shorten(function: str) -> str:
    """Return a demangled name without parameters, return type and template arguments.

    ``lambda in at::native::add`` stands for its ``{lambda(float)#1}::operator()``, and what the
    dispatcher's wrappers call stands for the wrappers, which are all alike.
    """
    found = symbol(function)
    name = found.outline
    if found.bare.startswith(_DISPATCHER):
        target = _dispatched(function)
        if target is not None:
            name = f"dispatcher call of {target}"
    if found.within_lambda:
        name = f"lambda in {name}" if name else "lambda"
    name = _TEMPLATE.sub(lambda match: _arguments(match, function), name)
    for mark in found.marks:
        name += f" [{mark}]"
    return _without_middle(name) if name else function[:LONGEST_SHOWN]


def _arguments(match: re.Match[str], function: str) -> str:
    """Return a template's name with its arguments where they are short and no templates."""
    name = match.group(1)
    text = function[:LONGEST]
    start = text.find(f"{name}<")
    while start > 0 and (text[start - 1].isalnum() or text[start - 1] == "_"):
        start = text.find(f"{name}<", start + 1)
    begin = start + len(name) + 1
    end = text.find(">", begin, begin + _SHORT_ARGUMENTS + 1) if start >= 0 else -1
    inner = text[begin:end].strip() if end >= 0 else ""
    if not inner or any(character in inner for character in "<(){}"):
        return match.group()
    return f"{name}<{inner}>"


def _dispatched(function: str) -> str | None:
    """Return the function that a wrapper of PyTorch's dispatcher was made for."""
    text = function[:LONGEST]
    match = _WRAPPED.search(text)
    if match is None:
        return None
    # `…<at::Tensor (at::Tensor const&, long), &at::(anonymous namespace)::wrapper_CPU_mm>, …`;
    # the reference in "const&, long" has no blank before it
    start = text.find(", &", match.end())
    if start < 0:
        return None
    rest = text[start + 3 :].lstrip("(")
    end = re.search(r">(?![\w:>])|,", rest)
    target = symbol(rest[: end.start()] if end else rest[:400]).bare
    return target or None


def _without_middle(name: str) -> str:
    if len(name) <= LONGEST_SHOWN:
        return name
    head = LONGEST_SHOWN // 2 - 15
    return f"{name[:head]}…{name[-(LONGEST_SHOWN - head - 1) :]}"


def short_file(path: str) -> str:
    """Return a source path as people say it.

    ``torch/_tensor.py`` for what lies in a package, ``train.py`` for anything else.
    """
    for marker in _PATH_MARKERS:
        _, found, rest = path.rpartition(marker)
        if found:
            return rest
    return path.rstrip("/").rpartition("/")[2] or path


def location(file: str | None, line: int | None, *, whole: bool = False) -> str | None:
    """Return ``train.py:31``, None when the file is not known."""
    if not file:
        return None
    shown = file if whole else short_file(file)
    return shown if line is None else f"{shown}:{line}"
