"""Tests name ids and values: what a sentence of ours says in full stands in goldens alone."""

import ast
import errno
import os
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from builders.prose import read_prose

ROOT = Path(__file__).resolve().parents[2]
TESTS, SRC = ROOT / "tests", ROOT / "src" / "postmortem"

_OTHERS = SRC / "readers" / "trace_text.py"
"""The format of DebugUnderflowOverflow, which the monitor writes to the letter."""
_LITERALS = TESTS / "unit" / "knowledge" / "test_messages.py"
"""It lists literals of the source itself."""
_ALLOWED = {
    "aborting after 2 batches due to `abort_after_b": "words of DebugUnderflowOverflow",
    "file system on sda1": "what a reading is of: a key of the JSON",
    "the other logs": "the name of a job in the JSON",
}
"""What is asserted as it stands, and why."""

_DOCSTRING = re.compile(r'"""(?s:.*?)"""')
_COMMENT = re.compile(r"(?m)^\s*#.*$|  # .*$")
_MEMBER = re.compile(r'(?m)^    [A-Z_]+ = "(.*)"$')
_LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"' + "|" + r"'((?:[^'\\\n]|\\.)*)'")
_RECOGNISED = re.compile(r"(?ms)^(?:pattern|samples|unlike|match|literal) = (?:\[.*?^\]|.*?$)")
_PIECE = re.compile(r"[^A-Za-z'’ ,;:.]|(?<=[a-z])[.:](?=[^ ])")
_WORD = re.compile(r"[A-Za-z][A-Za-z'’]*")
_ASKS = {"startswith", "endswith", "count", "search", "match", "fullmatch", "findall", "index"}

Three = tuple[str, str, str]


def threes(text: str) -> Iterator[Three]:
    """Return every three words in a row, with nothing but spaces and commas between."""
    for piece in _PIECE.split(text):
        if piece.count(" ") > 1:
            words = _WORD.findall(piece)
            yield from zip(words, words[1:], words[2:], strict=False)


def said_in_src() -> set[Three]:
    """Return what the strings of Python code and knowledge say, docstrings and ids apart."""
    said: set[Three] = set()
    for path in sorted(SRC.rglob("*")):
        if path.suffix not in (".py", ".toml") or path == _OTHERS:
            continue
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".py":
            text = _MEMBER.sub("", _COMMENT.sub("", _DOCSTRING.sub("", text)))
        else:
            text = _RECOGNISED.sub("", text)
        for literal in _LITERAL.finditer(text):
            words = literal[1] or literal[2] or ""
            if words.count(" ") > 1 and not words.startswith("set "):  # gdb's settings
                said.update(threes(words))
    return said


def members() -> set[str]:
    """Return the values of enumerations: types, as the JSON has them."""
    texts = (path.read_text(encoding="utf-8") for path in (SRC / "diagnose").rglob("*.py"))
    return {value for text in texts for value in _MEMBER.findall(text)}


def words_of_others() -> set[Three]:
    system = [os.strerror(number) for number in errno.errorcode]
    python = ["list index out of range", "division by zero"]
    gdb = ["signal handler called"]
    said = [*system, *python, *gdb, *_OTHERS.read_text(encoding="utf-8").splitlines()]
    return set(chain.from_iterable(map(threes, said)))


def strings(node: ast.AST) -> Iterator[ast.Constant]:
    for one in ast.walk(node):
        if isinstance(one, ast.Constant) and isinstance(one.value, str):
            yield one


def parts(node: ast.expr) -> Iterator[ast.expr]:
    """Return what is compared itself: not the arguments of a call, which are evidence."""
    match node:
        case ast.Tuple() | ast.List() | ast.Set():
            within = node.elts
        case ast.Dict():
            within = [one for one in (*node.keys, *node.values) if one]
        case ast.JoinedStr():
            within = node.values
        case ast.FormattedValue():
            within = [node.value]
        case ast.BinOp():
            within = [node.left, node.right]
        case ast.Compare():
            within = [node.left, *node.comparators]
        case _:
            within = []
    yield node
    for one in within:
        yield from parts(one)


def compared(statement: ast.AST) -> Iterator[ast.expr]:
    """Return what an assertion, or a `pytest.raises` with a match, looks for or compares."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Compare) and isinstance(
            node.ops[0], (ast.Eq, ast.NotEq, ast.In, ast.NotIn)
        ):
            yield from parts(node)
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr in _ASKS:
                yield from chain.from_iterable(map(parts, node.args))
            yield from (word.value for word in node.keywords if word.arg == "match")


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for one in body:
        yield one
        for inner in ("body", "orelse", "finalbody"):
            yield from statements(getattr(one, inner, []))
        for handler in getattr(one, "handlers", []):
            yield from statements(handler.body)


def named(test: ast.FunctionDef) -> dict[str, list[ast.Constant]]:
    """Return the strings that a name of a test may stand for: of loops and of parameters."""
    names: dict[str, list[ast.Constant]] = {}
    for one in statements(test.body):
        if isinstance(one, ast.For):
            for target in ast.walk(one.target):
                if isinstance(target, ast.Name):
                    names.setdefault(target.id, []).extend(strings(one.iter))
    for call in test.decorator_list:
        if isinstance(call, ast.Call) and len(call.args) > 1:
            keys = [key.strip() for word in strings(call.args[0]) for key in word.value.split(",")]
            rows = call.args[1].elts if isinstance(call.args[1], (ast.List, ast.Tuple)) else []
            for row in rows:
                cells = row.args if isinstance(row, ast.Call) else getattr(row, "elts", [row])
                for key, cell in zip(keys, cells if len(keys) > 1 else [row], strict=False):
                    names.setdefault(key, []).extend(strings(cell))
    return names


def asserted(tree: ast.Module) -> Iterator[ast.Constant]:
    """Return the strings that the tests of a module compare something with."""
    for test in statements(tree.body):
        if not isinstance(test, ast.FunctionDef):
            continue
        names = named(test)
        body = list(statements(test.body))
        given = {
            name.id
            for one in body
            if not isinstance(one, (ast.Assert, ast.With, ast.For, ast.If))
            for name in ast.walk(one)
            if isinstance(name, ast.Name)
        }
        for one in body:
            if isinstance(one, ast.With):
                looked_at: list[ast.AST] = [item.context_expr for item in one.items]
            else:
                looked_at = [one] if isinstance(one, ast.Assert) else []
            for node in chain.from_iterable(map(compared, looked_at)):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node
                elif isinstance(node, ast.Name) and node.id not in given:
                    yield from names.get(node.id, ())


def evidence(tree: ast.Module, but: set[int]) -> set[Three]:
    """Return what the module gives to the code under test, which may come back as it is."""
    return {three for one in strings(tree) if id(one) not in but for three in threes(one.value)}


def test_no_test_asserts_on_a_sentence_of_ours() -> None:
    ours = said_in_src() - words_of_others()
    programs = (path.read_text(encoding="utf-8") for path in (TESTS / "programs").glob("*.*"))
    printed = set(chain.from_iterable(map(threes, programs)))
    found, used, types = [], set(), members()
    for path in sorted({*TESTS.rglob("*.py")} - {_LITERALS}):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        rows = {id(one): one for one in asserted(tree)}
        hits = [(one, ours.intersection(threes(one.value))) for one in rows.values()]
        if not any(hit for _, hit in hits):
            continue
        known = evidence(tree, set(rows)) | printed
        for one, hit in hits:
            if hit - known and one.value not in types:
                used.add(one.value)
                if one.value not in _ALLOWED:
                    found.append(f"{path.relative_to(ROOT)}:{one.lineno}: {one.value!r}")
    assert not found, "name an id or a value, or give the sentence to the fixture `prose`"
    assert used == set(_ALLOWED)


GOLDEN = sorted(TESTS.rglob("golden/test_*.txt"))


@pytest.mark.parametrize("path", GOLDEN, ids=[path.stem for path in GOLDEN])
def test_each_part_of_a_golden_file_is_of_a_test(path: Path) -> None:
    module = ast.parse((path.parents[1] / f"{path.stem}.py").read_text(encoding="utf-8"))
    tests = {one.name for one in statements(module.body) if isinstance(one, ast.FunctionDef)}
    assert {name.partition("[")[0] for name in read_prose(path)} <= tests


@pytest.mark.parametrize(
    "code",
    [
        'def test_a():\n    assert "a b c" in out',
        'def test_a():\n    for words in ("a b c",):\n        assert found.startswith(words)',
        'def test_a():\n    with raises(ValueError, match="a b c"):\n        f()',
        '@param("text, said", [(1, "a b c")])\ndef test_a(text, said):\n    assert f(text) == said',
    ],
)
def test_what_a_test_compares_is_seen(code: str) -> None:
    assert [one.value for one in asserted(ast.parse(code))] == ["a b c"]


def test_evidence_is_no_expectation() -> None:
    code = 'def test_a(tmp_path):\n    text = "a b c"\n    assert read(text) == ("d", f("a b c"))'
    assert [one.value for one in asserted(ast.parse(code))] == ["d"]
