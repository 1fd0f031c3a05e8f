"""Function names as people say them: without arguments, clones and walls of templates."""

from postmortem.knowledge.rust_names import flattened
from postmortem.knowledge.symbols import symbol
from postmortem.patterns import Pattern

_SUFFIX = Pattern(
    r"(?:\.(?:cold|part|constprop|isra|lto_priv|localalias|llvm)(?:\.\d+)*"
    r"|@@?[A-Z_]+[\d.]*| \[clone [^]]*\])+$"
)
_QUALIFIER = Pattern(r"(\s+(const|volatile|noexcept|&&?|\[clone [^]]*\]))+$")


def bare(name: str) -> str:
    """Return a function's name without its arguments: ``"c10d::Work::wait"``."""
    name = _QUALIFIER.sub("", _SUFFIX.sub("", name.strip()))
    if not name.endswith(")"):
        return name
    depth = 0
    for index in range(len(name) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(name[index], 0)
        if depth == 0:
            head = name[:index]
            is_name = head.endswith("operator") or not head or head.endswith("::")
            return name if is_name else _SUFFIX.sub("", head)
    return name


def short(name: str, limit: int = 48) -> str:
    """Return a name of at most `limit` characters that a reader still recognises."""
    found = symbol(name) if "operator" in name else None
    if found is not None and found.outline:  # lambdas in template arguments are operator() too
        text = found.outline
    else:
        text = _without_templates(flattened(bare(name))).replace("::<", "<")
    text = text.replace("(anonymous namespace)::", "")
    if " " in text and "operator" not in text and "{" not in text:
        text = text.rsplit(" ", 1)[-1]  # a template's return type comes first
    parts = text.split("::")
    while len("::".join(parts)) > limit and len(parts) > 2:
        parts.pop(0)
    return clip("::".join(parts), limit)


def short_type(name: str, limit: int = 48) -> str:
    """Return a C++ type of at most `limit` characters: ``"char const*"`` stays whole."""
    name = name.replace("(anonymous namespace)::", "").replace("::__cxx11::", "::")
    for written, spoken in _SPOKEN_TYPES:
        name = name.replace(written, spoken)
    return clip(_without_templates(name), limit)


# libstdc++'s inner names of types that everybody knows by another.
_SPOKEN_TYPES = (
    ("std::basic_string<char, std::char_traits<char>, std::allocator<char> >", "std::string"),
    ("std::__ios_failure", "std::ios_base::failure"),
)


_SHORTEST_GAP = 60
_TELLS = Pattern(
    r"\b[A-Z]+_(?:ERROR|STATUS|ERR)_[A-Z_]{3,}|\b[A-Z]+_(?:EXHAUSTED|EXCEEDED|PRECONDITION|DENIED)\b"
    r"|\bexit(?:ed with)? (?:status|code)|\breturn code\b|\bdied with\b|\bCANCELLED\b"
    r"|\b\w+ \w+: _Z\w"
)
"""What a text comes to: a status by its name, how a command ended, what a library lacks."""
_WHY_LAST = (" … ", "stderr: ")
"""Behind these the end of a text says why: more was left out there, or a command wrote it."""
_LOGGED = Pattern(
    r"^[IWEF]\d{4} [\d:.]+ +\d+ \S+:\d+\] |^[A-Z]{4,}:[\w.]+:(?=\S)"
    r"|^\[[A-Z]+\] [A-Z_]+\(\d+,\w+,\w+\):[\d:.-]+ \[\S+:\d+\] "
)
"""What glog, PyTorch, Python's logging, MindSpore write before a line: most of it may be a path."""


def without_logger(text: str) -> str:
    """Return a line without what a logger wrote before it."""
    return _LOGGED.sub("… ", text)


def clip(text: str, limit: int) -> str:
    """Return text of at most `limit` characters, on one line, marked where it is cut.

    That is at the end, or in the middle where what it comes to stands behind, or before the words
    of a logger.
    """
    text = " ".join(text.split())
    if len(text) > limit:
        text = without_logger(text)
    if len(text) <= limit:
        return text
    head = limit // 2
    tells = _TELLS.search(text, head - 1) if limit >= _SHORTEST_GAP else None
    why_last = any(one in text[head:] for one in _WHY_LAST)
    if tells is None or (tells.end() < limit and not why_last):
        return text[: limit - 1].rstrip() + "…"
    room = limit - head - 3
    begin = len(text) - room if why_last else min(tells.start(), len(text) - room)
    tail = text[begin:] if text[begin - 1] == " " else text[begin:].partition(" ")[2]
    tail = tail or text[tells.start() :]  # one long word, as a symbol is
    if len(tail) > room:
        tail = tail[: room - 1].rstrip() + "…"
    return f"{text[:head].rstrip()} … {tail.lstrip()}"


def _without_templates(name: str) -> str:
    if "operator" in name or name.count("<") != name.count(">") or name.startswith("<"):
        return name
    out: list[str] = []
    depth = 0
    for character in name:
        if character == "<":
            depth += 1
            continue
        if character == ">":
            depth -= 1
            if depth == 0:
                out.append("<…>")
            continue
        if depth == 0:
            out.append(character)
    return "".join(out)
