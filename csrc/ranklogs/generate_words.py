"""Makes words.h of knowledge/log_words.toml: ``python csrc/ranklogs/generate_words.py``.

A ``[[words]]`` is a list, a ``[[text]]`` one text: its own, or the whole pattern of a message.
"""

import re
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
KNOWLEDGE = HERE.parents[1] / "src" / "postmortem" / "knowledge"
SOURCE = KNOWLEDGE / "log_words.toml"
MESSAGES = KNOWLEDGE / "messages" / "patterns.txt"
HEADER = HERE / "words.h"
_WIDTH = 100


def header() -> str:
    """Return what stands in `words.h`; a test compares the two."""
    known = tomllib.loads(SOURCE.read_text(encoding="utf-8"))
    lists = "\n".join(_list(row["name"], row["what"], row["words"]) for row in known["words"])
    texts = "\n".join(_text(row) for row in known["text"])
    return (
        "// Made of knowledge/log_words.toml by generate_words.py.\n#pragma once\n\n"
        "#include <string_view>\n\nnamespace pm::ranklogs {\n// clang-format off\n\n"
        f"{lists}\n{texts}\n// clang-format on\n}}  // namespace pm::ranklogs\n"
    )


def _text(row: dict[str, str]) -> str:
    text = row["text"] if "text" in row else _pattern(row["message"])
    lines = [f"// {row['what']}", f'inline constexpr std::string_view {row["name"]} = "{text}";']
    return "\n".join([*lines, ""])


def _pattern(name: str) -> str:
    """Return the pattern of a message, which must be plain text."""
    lines = MESSAGES.read_text(encoding="utf-8").splitlines()
    (pattern,) = (line.rpartition("\t")[2] for line in lines if line.startswith(f"{name}\t"))
    assert re.fullmatch(r"[\w ]+", pattern), pattern
    return pattern


def _list(name: str, what: str, words: list[str]) -> str:
    lines, line = [f"// {what}", f"inline constexpr std::string_view {name}[] = {{"], "   "
    for word in words:
        if len(line) + len(word) + 4 > _WIDTH:
            lines.append(line)
            line = "   "
        line += f' "{word}",'
    return "\n".join([*lines, line, "};", ""])


if __name__ == "__main__":
    HEADER.write_text(header(), encoding="utf-8")
