"""Makes words.h of knowledge/log_words.toml: ``python csrc/ranklogs/generate_words.py``."""

import tomllib
from pathlib import Path

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src" / "postmortem" / "knowledge" / "log_words.toml"
HEADER = HERE / "words.h"
_WIDTH = 100


def header() -> str:
    """Return what stands in `words.h`; a test compares the two."""
    rows = tomllib.loads(SOURCE.read_text(encoding="utf-8"))["words"]
    lists = "\n".join(_list(row["name"], row["what"], row["words"]) for row in rows)
    return (
        "// Made of knowledge/log_words.toml by generate_words.py.\n#pragma once\n\n"
        "#include <string_view>\n\nnamespace pm::ranklogs {\n// clang-format off\n\n"
        f"{lists}\n// clang-format on\n}}  // namespace pm::ranklogs\n"
    )


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
