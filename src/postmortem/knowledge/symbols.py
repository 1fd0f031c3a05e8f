"""The parts of a demangled symbol name, found in one pass over it.

Demanglers disagree: libiberty writes ``f(int)::{lambda(int)#1}::operator()(int) const``, LLVM
``f(int)::'lambda'(int)::operator()(int) const``, gdb from DWARF ``f(int)::<lambda(int)>`` and C
symbols carry ``.cold`` or ``@@GLIBC_2.14``. Names are evidence, so they may be hostile: the scan
is linear, without recursion, and looks at no more than `LONGEST` characters.
"""

import re
from functools import lru_cache

from postmortem.knowledge.rust_names import flattened
from postmortem.patterns import Pattern
from postmortem.records import record

LONGEST = 32_768
"""Characters of a name that are looked at; real template names of PyTorch reach about 12,000."""

_TEMPLATE, _LAMBDA = "\x00", "\x01"
_TOKEN = Pattern(
    r"\boperator\s*(?:\(\)|\[\]|->\*|->|<=>|<<=|>>=|<<|>>|<=|>=|<|>)"
    r"|->|::|'lambda\d*'|[<>(){}\[\]]|\s+"
)
_CLOSES = {">": "<", ")": "(", "}": "{", "]": "["}
_MARKS = frozenset({"cold", "part", "isra", "constprop", "lto_priv", "localalias", "llvm"})
_SILENT_MARKS = frozenset({"lto_priv", "localalias", "llvm"})
_THUNKS = ("non-virtual thunk to ", "virtual thunk to ", "covariant return thunk to ")


@record
class Symbol:
    """What is left of a name without parameters, return type, and template arguments."""

    bare: str
    """``c10::impl::wrap_kernel_functor_unboxed_::call``: what tables are keyed by."""
    outline: str
    """The same with ``<…>`` where template arguments were."""
    within_lambda: bool = False
    """It is a lambda; `bare` is the function that the lambda is written in."""
    marks: tuple[str, ...] = ()
    """What the compiler made of it: ``("cold",)``, ``("isra",)``."""


@lru_cache(maxsize=8192)
def symbol(name: str) -> Symbol:
    """Return the parts of one demangled name."""
    text = name[:LONGEST].replace(_TEMPLATE, "").replace(_LAMBDA, "")
    if text.startswith("<") or "{impl" in text:
        text = flattened(text)
    for thunk in _THUNKS:
        text = text.removeprefix(thunk)
    text, marks = _without_marks(text)
    if not any(character in text for character in "<>(){}[] '"):
        bare = _plain(text)
        return Symbol(bare, bare, marks=marks)
    pieces = _top_level(text)
    joined = _with_usual_names("".join(pieces)).strip(": ")
    joined = joined.replace("::" + _TEMPLATE, _TEMPLATE)  # Rust's sort::<u8>
    within_lambda = _LAMBDA in joined
    if within_lambda:
        joined = joined[: joined.index(_LAMBDA)].removesuffix("::")
    # `operator<< <char>` keeps its blank, and Rust's `<T as Trait>::method` starts with a bracket
    bare = joined.replace(_TEMPLATE, "").strip(": ")
    outline = joined.replace(_TEMPLATE, "<…>")
    if not bare and not within_lambda:
        bare = outline = text.strip()
    return Symbol(_plain(bare), _plain(outline), within_lambda, marks)


def _plain(name: str) -> str:
    # glibc's own calls go through hidden aliases (__GI_raise) since 2.3; debug files name those.
    name = name.removeprefix("__GI_")
    if name.startswith("_INTERNAL"):  # icc's anonymous namespace, in libiomp5 and MKL
        name = name.partition("::")[2] or name
    at = name.find("@", 1)  # memcpy@@GLIBC_2.14, malloc@plt
    return name if at < 0 else name[:at]


def _without_marks(text: str) -> tuple[str, tuple[str, ...]]:
    """Split off ``[clone .cold.1]`` and ``.constprop.0``; what they say is worth a word."""
    marks: list[str] = []
    start = text.find(" [clone ")
    if start >= 0:
        marks += re.findall(r"[a-z_]+", text[start : start + 200].replace("clone", ""))
        text = text[:start]
    for _ in range(8):
        head, dot, tail = text.rpartition(".")
        if not dot or not head or not (tail in _MARKS or (tail.isdigit() and "." in head)):
            break
        if tail.isdigit() and head.rpartition(".")[2] not in _MARKS:
            break
        if not tail.isdigit():
            marks.append(tail)
        text = head
    kept = dict.fromkeys(m for m in marks if m in _MARKS and m not in _SILENT_MARKS)
    return text, tuple(kept)


def _top_level(text: str) -> list[str]:
    """Return the text outside of all brackets, up to the end of the name."""
    pieces: list[str] = []
    brackets: list[str] = []
    in_decltype = False
    skip_to = position = 0
    for match in _TOKEN.finditer(text):
        token, start = match.group(), match.start()
        if start < skip_to:
            continue
        if not brackets:
            pieces.append(text[position:start])
        position = match.end()
        if brackets:
            _track(brackets, token)
            if not brackets and token == ")":
                if not in_decltype and _ends_name(text, position):
                    return pieces
                in_decltype = False
            continue
        if token in "<({[" and len(token) == 1:
            if token == "(" and text[max(0, start - 10) : start].rstrip().endswith("decltype"):
                in_decltype = True
                pieces.clear()
            elif token == "(" and not any(pieces) and not _anonymous(text, start):
                return pieces  # a function that returns a pointer to one: `int (*f(char))(long)`
            brackets.append(token)
            if token == "<":
                pieces.append(_LAMBDA if text.startswith("<lambda", start) else _TEMPLATE)
            elif token == "{":
                closure = text.startswith(("{lambda", "{{closure}}", "{closure"), start)
                pieces.append(_LAMBDA if closure else "")
            elif token == "(" and _anonymous(text, start):
                skip_to = position = start + len("(anonymous namespace)::")
                brackets.pop()
        elif token.startswith("'lambda"):
            pieces.append(_LAMBDA)
        elif token.isspace():
            if text.startswith(("const::", "const &::", "const&::"), position):
                skip_to = position = text.index("::", position)  # `f() const::{lambda()#1}`
            elif any(piece.startswith("operator") for piece in pieces[-2:]):
                pieces.append(" ")
            else:
                pieces.clear()
        elif token not in ("->", ">", ")", "}", "]"):
            pieces.append(token)
    if not brackets:
        pieces.append(text[position:])
    return pieces


def _track(brackets: list[str], token: str) -> None:
    if token in ("<", "(", "{", "["):
        brackets.append(token)
    elif token in _CLOSES:
        opener = _CLOSES[token]
        if token == ">":
            if brackets[-1] == "<":
                brackets.pop()
            return
        # `(a < b)` inside of template arguments leaves an opener that never closes.
        while brackets[-1] == "<" and opener in brackets[-8:]:
            brackets.pop()
        if brackets[-1] == opener:
            brackets.pop()


def _ends_name(text: str, position: int) -> bool:
    """Whether a closed bracket was the parameter list and not that of an enclosing function."""
    rest = text[position : position + 24].lstrip()
    rest = rest.removeprefix("const").lstrip(" &")
    return not rest.startswith("::")


def _anonymous(text: str, start: int) -> bool:
    return text.startswith("(anonymous namespace)", start)


def _with_usual_names(joined: str) -> str:
    joined = joined.replace("std::__cxx11::", "std::").replace("std::__1::", "std::")
    return joined.replace("std::basic_string" + _TEMPLATE, "std::string")
