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

_DOCSTRING = re.compile(r'"""(?s:.*?)"""')
_COMMENT = re.compile(r"(?m)^\s*#.*$|  # .*$")
_MEMBER = re.compile(r'(?m)^    [A-Z_]+ = "(.*)"$')
_LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"' + "|" + r"'((?:[^'\\\n]|\\.)*)'")
_RECOGNISED = re.compile(r"(?ms)^(?:pattern|samples|unlike|match|literal) = (?:\[.*?^\]|.*?$)")
_PIECE = re.compile(r"[^A-Za-z'’ ,;:.]|(?<=[a-z])[.:](?=[^ ])")
_WORD = re.compile(r"[A-Za-z][A-Za-z'’]*")
_ASKS = {
    "startswith",
    "endswith",
    "count",
    "search",
    "match",
    "fullmatch",
    "findall",
    "index",
    "until",
}

Three = tuple[str, str, str]
Names = dict[str, list[ast.expr]]


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
    rust = ["index out of bounds: the len is", "but the index is"]
    gdb = ["signal handler called"]
    said = [*system, *python, *rust, *gdb, *_OTHERS.read_text(encoding="utf-8").splitlines()]
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


def named(body: list[ast.stmt], calls: list[ast.expr], outside: Names) -> Names:
    """Return what names stand for: those of assignments, of loops and of a test's parameters."""
    names = {name: [*nodes] for name, nodes in outside.items()}

    def rows(node: ast.expr | None) -> list[ast.expr]:
        match node:
            case ast.Name():
                return list(chain.from_iterable(map(rows, names.get(node.id, []))))
            case ast.Call(func=ast.Attribute(value=table, attr="items")):
                tables = names.get(table.id, []) if isinstance(table, ast.Name) else [table]
                return [
                    ast.Tuple([key, value])
                    for one in tables
                    if isinstance(one, ast.Dict)
                    for key, value in zip(one.keys, one.values, strict=True)
                    if key
                ]
            case ast.Tuple() | ast.List() | ast.Set():
                return node.elts
            case ast.Dict():
                return [key for key in node.keys if key]
        return []

    def stand(keys: list[str], found: list[ast.expr]) -> None:
        for row in found:
            cells = row.args if isinstance(row, ast.Call) else getattr(row, "elts", [row])
            for key, cell in zip(keys, cells if len(keys) > 1 else [row], strict=False):
                names.setdefault(key, []).append(cell)

    for one in body:
        match one:
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                stand([name], [one.value] if one.value else [])
            case ast.For():
                targets = getattr(one.target, "elts", [one.target])
                stand([getattr(target, "id", "") for target in targets], rows(one.iter))
    for call in calls:
        if isinstance(call, ast.Call) and len(call.args) > 1:
            keys = [key.strip() for word in strings(call.args[0]) for key in word.value.split(",")]
            stand(keys, rows(call.args[1]))
    return names


def asserted(tree: ast.Module) -> Iterator[ast.Constant]:
    """Return the strings that the tests of a module compare something with."""
    outside = named(tree.body, [], {})
    for test in statements(tree.body):
        if not isinstance(test, ast.FunctionDef):
            continue
        body = list(statements(test.body))
        names = named(body, test.decorator_list, outside)
        handed_over = [
            argument
            for one in body
            for node in ast.walk(one)
            if isinstance(node, ast.Call) and not isinstance(one, (ast.With, ast.For, ast.If))
            if not (isinstance(node.func, ast.Attribute) and node.func.attr in _ASKS)
            for argument in node.args
        ]
        given = {
            name.id for one in handed_over for name in ast.walk(one) if isinstance(name, ast.Name)
        }
        for one in body:
            if isinstance(one, ast.With):
                looked_at: list[ast.AST] = [item.context_expr for item in one.items]
            else:
                looked_at = [one] if isinstance(one, (ast.Assert, ast.Expr)) else []
            for node in chain.from_iterable(map(compared, looked_at)):
                if isinstance(node, ast.Name) and node.id not in given:
                    yield from chain.from_iterable(map(strings, names.get(node.id, [])))
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node


def evidence(tree: ast.Module, but: set[int]) -> set[Three]:
    """Return what the module gives to the code under test, which may come back as it is."""
    return {three for one in strings(tree) if id(one) not in but for three in threes(one.value)}


def test_no_test_asserts_on_a_sentence_of_ours() -> None:
    ours = said_in_src() - words_of_others()
    programs = (path.read_text(encoding="utf-8") for path in (TESTS / "programs").glob("*.*"))
    printed = set(chain.from_iterable(map(threes, programs)))
    found, types = [], members()
    for path in sorted({*TESTS.rglob("*.py")} - {_LITERALS}):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        rows = {id(one): one for one in asserted(tree)}
        hits = [(one, ours.intersection(threes(one.value))) for one in rows.values()]
        if not any(hit for _, hit in hits):
            continue
        known = evidence(tree, set(rows)) | printed
        for one, hit in hits:
            if hit - known and one.value not in types:
                found.append(f"{path.relative_to(ROOT)}:{one.lineno}: {one.value!r}")
    assert not found, "name an id or a value, or give the sentence to the fixture `prose`"


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
        'R = [(1, "a b c")]\n@param("n, said", R)\ndef test_a(n, said):\n    assert said in f(n)',
        'def test_a():\n    R = {1: "a b c"}\n    for n, s in R.items():\n        assert s in f(n)',
        'SAID = "a b c"\ndef test_a():\n    assert f() == SAID',
        'def test_a(near):\n    near.until("a b c")',
        '@param("text, said", [(1, "a b c")])\ndef test_a(text, said):\n    assert f(text) == said',
    ],
)
def test_what_a_test_compares_is_seen(code: str) -> None:
    assert [one.value for one in asserted(ast.parse(code))] == ["a b c"]


def test_evidence_is_no_expectation() -> None:
    code = 'def test_a():\n    t = "a b c"\n    assert read(t) == ("d", f("a b c"), t)'
    assert [one.value for one in asserted(ast.parse(code))] == ["d"]
