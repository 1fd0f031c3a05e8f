"""What others print stands once: in the TOML files, and nowhere in code."""

import ast
import itertools
import re
import runpy
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from postmortem import _native
from postmortem.facts.signature import Signature
from postmortem.knowledge.lookup import load_table
from postmortem.knowledge.messages import TABLE, briefs, explained, messages, table
from postmortem.readers.ranklogs.known_lines import keep_literals
from postmortem.readers.signatures import Signatures

ROOT = Path(__file__).resolve().parents[3]
SRC = ROOT / "src" / "postmortem"
WITH_PATTERN = [item for item in messages() if item.pattern]
LITERALS = dict(zip(WITH_PATTERN, Signatures(WITH_PATTERN).literals(), strict=True))
OTHERS = {"last line": "end", "run begin": "run", "run sign": "run", "ci step": "run"}
LONG = 12
"""Characters of a text that no two things print by chance."""

LEFT_IN_CODE = {
    # Words of our own that are told, not looked for.
    "diagnose/incident/events.py",
    # How files of a kind begin: traces of modules, what docker inspect prints.
    "readers/trace_text.py",
    "readers/ranklogs/sources.py",
    # Syntax: what a traceback and gdb's output are made of, and how lines of loggers and of the
    # kernel begin.
    "readers/notebooks.py",
    "readers/ranklogs/lines.py",
    "readers/ranklogs/native_stacks.py",
    "readers/stackdumps/gdb_text.py",
    "readers/kernel_log/events.py",
    "readers/kernel_log/lines.py",
    "readers/kernel_log/read.py",
}
"""Files that recognise words of messages by themselves."""


@pytest.mark.parametrize(
    "record", [item for item in WITH_PATTERN if item.is_wording], ids=lambda record: record.id
)
def test_a_wording_matches_its_samples_alone(record: Signature) -> None:
    engine = Signatures([record])
    assert record.cause.endswith(".")
    assert record.samples
    assert all(engine.matches(record.samples))
    assert not any(engine.matches(record.unlike))


@pytest.mark.parametrize("record", [item for item in WITH_PATTERN if item.keep])
def test_lines_of_a_message_are_kept(record: Signature) -> None:
    """Channels are counted, marks are listed, all others are rows."""
    for sample in record.samples:
        pieces = iter([sample.encode() + b"\n"])
        raw = _native.read_ranklog(lambda pieces=pieces: next(pieces, b""), keep_literals())
        assert raw["regions"] or raw["links"] or raw["marks"], sample


def test_messages_that_refine_others_name_them() -> None:
    known = {item.id for item in messages()} | {"xid"}
    assert {name for item in messages() for name in item.refines} - {"*"} <= known


def test_the_table_of_patterns_is_that_of_the_files() -> None:
    assert TABLE.read_text(encoding="utf-8") == table()
    assert list(briefs()) == [item.id for item in WITH_PATTERN]
    assert all(explained(item.id) == item for item in messages())


def test_a_wording_stands_in_one_record() -> None:
    """Where two records look for the same text, one says that it refines the other."""
    twice = [
        (one.id, other.id, text)
        for one, other in itertools.combinations(WITH_PATTERN, 2)
        if _apart(one) == _apart(other) and one.family != "xid" and not _related(one, other)
        for text in set(LITERALS[one]) & set(LITERALS[other])
        if len(text) >= LONG
    ]
    assert twice == []


def _apart(record: Signature) -> str:
    """Return what asks for lines that are messages too: where a log ends, or a run of it begins."""
    return next((by for where, by in OTHERS.items() if where in record.where), "")


def _related(one: Signature, other: Signature) -> bool:
    said = {*one.refines, *other.refines}
    return bool(said & {one.id, other.id, "*"})


def test_no_wording_stands_in_python_code() -> None:
    texts = {text.strip(" :") for found in LITERALS.values() for text in found}
    texts = {text for text in texts if len(text) >= LONG and not text.isidentifier()}
    found = {
        (str(path.relative_to(SRC)), line, text)
        for path in sorted(SRC.rglob("*.py"))
        for line, said in recognised(ast.parse(path.read_text(encoding="utf-8")))
        for text in texts
        if text in said
    }
    assert {row for row in found if row[0] not in LEFT_IN_CODE} == set()
    assert {row[0] for row in found} <= LEFT_IN_CODE


def test_no_wording_stands_in_native_code() -> None:
    texts = {text for found in LITERALS.values() for text in found if len(text) >= LONG}
    found = {
        (path.name, said) for path, said in _native_strings("*") for text in texts if text in said
    }
    assert found == {
        ("reader.cpp", "Traceback (most recent call last)"),
        # What a process holds in memory, and strace's own lines.
        ("panic_text.cpp", "fatal error: "),
        ("panic_text.cpp", " panicked at "),
        ("thrown_value.cpp", "std::bad_alloc"),
        ("thrown_value.cpp", "std::bad_array_new_length"),
        ("signals.cpp", "+++ exited with "),
        # Words of our own.
        ("core.cpp", "no thread state (NT_PRSTATUS) could be read"),
        ("cuda.cpp", "out of memory"),
        ("timeline.cpp", "exited with 0"),
    }


def test_the_words_of_the_native_reader_are_those_of_the_file() -> None:
    made = runpy.run_path(str(ROOT / "csrc" / "ranklogs" / "generate_words.py"))
    assert made["HEADER"].read_text(encoding="utf-8") == made["header"]()


def test_words_of_logs_stand_in_their_file_alone() -> None:
    rows = tomllib.loads((SRC / "knowledge" / "log_words.toml").read_text(encoding="utf-8"))
    words = {word for row in rows["words"] for word in row["words"]}
    words |= {row["text"] for row in rows["text"] if "text" in row}
    found = {
        (path.name, said)
        for path, said in _native_strings("ranklogs")
        if said in words or (len(said) > 3 and said.strip() in words)
    }
    # The names of a grammar's prefixes, of the kinds of rows, and fields of rows.
    assert {row for row in found if row[0] not in ("keep_literals.cpp", "fields.h")} == set()


def _native_strings(folder: str) -> Iterator[tuple[Path, str]]:
    for path in sorted((ROOT / "csrc").glob(f"{folder}/*.[ch]*")):
        if path.name == "words.h" or path.parent.name == "fuzz":
            continue
        for line in path.read_text(encoding="utf-8").splitlines():
            if not line.lstrip().startswith("//"):
                code = line.partition("  // ")[0]
                yield from ((path, said) for said in _STRINGS.findall(code))


_STRINGS = re.compile(r'"((?:[^"\\]|\\.)+)"')
_TAKES_TEXT = {"startswith", "endswith", "partition", "rpartition", "removeprefix", "removesuffix"}
_LOOKS_FOR = {"find", "rfind", "index", "count", "compile", "search", "match", "split"}


def recognised(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of strings that are looked for in others, without their escapes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            plain = node.func.id if isinstance(node.func, ast.Name) else ""
            if name in _TAKES_TEXT or name in _LOOKS_FOR or plain == "Pattern":
                yield from _strings(node)
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            yield from _strings(node.left)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple | ast.Constant):
            names = [part.id for part in ast.walk(node.targets[0]) if isinstance(part, ast.Name)]
            if all(name.isupper() for name in names):
                yield from _strings(node.value)


def _strings(node: ast.AST) -> Iterator[tuple[int, str]]:
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str | bytes):
            said = part.value if isinstance(part.value, str) else part.value.decode("latin-1")
            yield part.lineno, said.replace("\\", "")


RANKS = sorted((SRC / "diagnose" / "ranks").rglob("*.py"))


@pytest.mark.parametrize("path", RANKS, ids=lambda path: path.stem)
def test_deciders_and_rules_over_ranks_read_no_text(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"\bPattern\(|^import re\b|\bre\.(?:compile|search|match)", text, re.M)


_SAID = {"text", "message", "what", "said", "words", "why", "head", "last_words", "cause", "title"}
_EXPRESSIONS = {"search", "match", "fullmatch", "finditer", "findall"}
_PARTS = {"startswith", "endswith", "find", "partition"}
_SYNTAX = "(most recent call last):"


def test_rules_ask_for_what_a_process_said_by_id() -> None:
    """Readers recognise it: no rule has an expression over a text, nor words that it looks for.

    Of a recording of strace a text is a call with its arguments, which is no wording.
    """
    found = [
        (path.stem, line)
        for path in sorted((SRC / "diagnose").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for line in _reads_text(node, of_strace="strace" in path.parts)
    ]
    assert [row for row in found if _SYNTAX not in row[1]] == []


@pytest.mark.parametrize("folder", ["core", "importing", "incident"])
def test_what_rules_ask_for_is_looked_for(folder: str) -> None:
    """Every id of a message there is one of those that a process's words are searched for."""
    asked = {
        node.value
        for path in sorted((SRC / "diagnose" / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in briefs()
    }
    asked |= {row["wording"] for row in load_table("nccl_results.toml")["result"]}
    asked |= {item.id for item in WITH_PATTERN if item.rule == "cuda_error"}
    assert {name for name in asked if "process text" not in briefs()[name].where} == set()


_ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)+")


@pytest.mark.parametrize("folder", ["readers/ranklogs", "diagnose"])
def test_what_is_asked_for_by_id_is_there(folder: str) -> None:
    """A word with a dash that is looked for, or stands in a table, is a message, or begins some."""
    found = {
        part.value
        for path in sorted((SRC / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for asked in _asked(node)
        for part in getattr(asked, "elts", [asked])
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    }
    names = {name for name in found if _ID.fullmatch(name)} - {"apt-get"}
    assert names
    known = tuple(item.id for item in messages())
    assert {name for name in names if not any(id.startswith(name) for id in known)} == set()


def _asked(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
        return [node.left]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.args if node.func.attr == "match" else []
    table = isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant | ast.Tuple)
    return [node.value] if table else []


def _reads_text(node: ast.AST, *, of_strace: bool) -> Iterator[str]:
    if isinstance(node, ast.ImportFrom) and any(one.name == "Wording" for one in node.names):
        yield ast.unparse(node)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
        looked_at = node.args[0] if node.func.attr in _EXPRESSIONS else node.func.value
        plain = isinstance(node.args[0], ast.Constant) and node.func.attr in _PARTS
        if (node.func.attr in _EXPRESSIONS or (plain and not of_strace)) and _is_said(looked_at):
            yield ast.unparse(node)
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
        words = isinstance(node.left, ast.Constant) and str(node.left.value).isascii()
        if words and not of_strace and _is_said(node.comparators[0]):
            yield ast.unparse(node)


def _is_said(node: ast.expr) -> bool:
    return any(isinstance(part, ast.Attribute) and part.attr in _SAID for part in ast.walk(node))


_TOLD = r"(?:title|cause|detail|why|lead|headline|label|footer)"
_TAKEN_APART = r"\.(?:startswith|endswith|r?partition|removeprefix|find|split)\("
_CONCLUSIONS = re.compile(
    rf"\b{_TOLD}{_TAKEN_APART}|[\"'] (?:not )?in [\w.]*\.(?:{_TOLD}|verdict|words)\b"
    rf"|{_TAKEN_APART}f?[\"'](?:[a-z]+ [a-z]+| [a-z]+ )"
)


def test_no_decision_reads_a_conclusion() -> None:
    """Causes are types: what is told of them is not read again."""
    found = [
        (str(path.relative_to(SRC)), line.strip())
        for path in sorted(SRC.rglob("*.py"))
        if path.relative_to(SRC).parts[0] not in ("readers", "knowledge", "facts")
        for line in path.read_text(encoding="utf-8").splitlines()
        if _CONCLUSIONS.search(line)
    ]
    assert found == []


def test_a_shells_word_is_not_looked_for_by_a_word_of_all_logs() -> None:
    """Lines that are kept begin a log's work anew: "line " stands in too many."""
    texts = next(texts for one, texts in LITERALS.items() if one.id == "shell-ended")
    assert "line " not in texts
