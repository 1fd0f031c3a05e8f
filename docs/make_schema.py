"""Writes schema.json and the tables of report-schema.md: ``python docs/make_schema.py``.

Fields, types and what is said of them are read from the sources of the shapes: an annotation is the
type, the text below it what the field means. A test holds both files to what is written here.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, get_args, get_origin

import postmortem
from postmortem.records import is_record, record
from postmortem.report.contract import Shape, own_fields

SCHEMA = Path(postmortem.__file__).parent / "report" / "schema.json"
PAGE = Path(__file__).parent / "report-schema.md"

_KINDS = (
    "core cores gpu_core strace logs triage hang watch gpu_memory flight scan net fleet doctor "
    "importing diff"
).split()
_PLAIN = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
_BUILT_IN = {*_PLAIN, "list", "tuple", "dict", "Literal", "Pointer"}
_MOST_VALUES = 6
_PROPER = ("Python", "Linux")

Json = dict[str, Any]


@record
class Field:
    """One field of a shape."""

    key: str
    kind: ast.expr
    words: str
    """What it means; empty where its name says it."""
    module: str

    def named(self, name: str) -> Any:
        """Return what a name in its type stands for; also one that only a type checker imports."""
        module = importlib.import_module(self.module)
        if hasattr(module, name):
            return getattr(module, name)
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.ImportFrom) and any(a.name == name for a in node.names):
                return getattr(importlib.import_module(str(node.module)), name)
        raise NameError(f"{self.module}: {name}")

    def _names(self) -> Iterator[Any]:
        nodes = (node for node in ast.walk(self.kind) if isinstance(node, ast.Name))
        return (self.named(node.id) for node in nodes if node.id not in _BUILT_IN)

    def shapes(self) -> list[type]:
        """Return the shapes that its type names."""
        return [one for one in self._names() if _is_object(one)]

    def said(self) -> str:
        """Return what it means, and the values that it may have."""
        literals = (n.value for n in ast.walk(self.kind) if isinstance(n, ast.Constant))
        values = [value for value in literals if isinstance(value, str)]
        for one in self._names():
            if not _is_object(one):
                values += _values(one)
        told = ", ".join(f"`{value}`" for value in values[:_MOST_VALUES])
        more = ", …" if len(values) > _MOST_VALUES else ""
        return "; ".join(filter(None, (self.words, told + more)))


def _is_object(named: Any) -> bool:
    return inspect.isclass(named) and (issubclass(named, Shape) or is_record(named))


def _values(named: Any) -> list[str]:
    """Return the texts of an enum, or of a name for a ``Literal``."""
    enum = inspect.isclass(named) and issubclass(named, StrEnum)
    values = [member.value for member in named] if enum else get_args(named)
    return [value for value in values if isinstance(value, str)]


def _fields(shape: type) -> list[Field]:
    """Return the fields of a shape or fact in their order."""
    found: dict[str, Field] = {}
    for base, own in own_fields(shape):
        lines = ast.parse(inspect.getsource(base)).body[0].body  # type: ignore[attr-defined]
        for line, after in zip(lines, [*lines[1:], None], strict=True):
            if not isinstance(line, ast.AnnAssign) or not isinstance(line.target, ast.Name):
                continue
            name = line.target.id
            if name in own:
                assert isinstance(own[name], str), f"{base.__module__} evaluates its annotations"
                words = _words(ast.literal_eval(after.value)) if isinstance(after, ast.Expr) else ""
                words = words or (found[name].words if name in found else "")
                found[name] = Field(name.rstrip("_"), line.annotation, words, base.__module__)
    return [*found.values()]


def _words(docstring: str) -> str:
    """Return what a field means as the page says it; facts say it to readers of Python."""
    text = " ".join(docstring.split()).removesuffix(".").replace("``", "`").replace('`"', "`")
    text = re.sub(r"\bNone\b", "null", re.sub(r"\bFalse:", "false:", text.replace('"`', "`")))
    first = text.partition(" ")[0]
    plain = first[1:].islower() or first in ("A", "I")
    return text[:1].lower() + text[1:] if plain and not first.startswith(_PROPER) else text


def _fields_of(kind: str) -> list[Field]:
    """Return the fields of a kind, or of the ``envelope``."""
    module = importlib.import_module(f"postmortem.report.contract.{kind}")
    tail = _fields(module.Tail) if kind == "envelope" else []
    return [*_fields(getattr(module, kind.title().replace("_", ""))), *tail]


def schema_text() -> str:
    """Return the JSON Schema: a line for each field, a definition for each shape."""
    definitions: Json = {"Address": {"type": "string", "pattern": "^0x[0-9a-f]+$"}}
    rules = []
    envelope = _object(_fields_of("envelope"), definitions)
    for kind in _KINDS:
        definitions[kind] = _object(_fields_of(kind), definitions)
        chosen = {"properties": {"kind": {"const": kind}}}
        rules.append({"if": chosen, "then": {"$ref": f"#/$defs/{kind}"}})
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "postmortem/1",
        "description": "A report of postmortem, as this version writes it. Fields are only ever "
        "added; none changes its meaning. Null means that the evidence does not say.",
        **envelope,
        "allOf": rules,
        "$defs": definitions,
    }
    return _laid_out("", whole, "") + "\n"


def _object(fields: list[Field], definitions: Json) -> Json:
    properties = {}
    for field in fields:
        words = {"description": field.words} if field.words else {}
        properties[field.key] = {**_type(field.kind, field, definitions), **words}
    return {"type": "object", "required": [*properties], "properties": properties}


def _type(node: ast.expr, field: Field, definitions: Json) -> Json:
    """Return the schema of a type; the shapes that it names are defined then."""
    match node:
        case ast.BinOp(left=left, right=right):
            one, other = (_type(side, field, definitions) for side in (left, right))
            return {"anyOf": [*one.get("anyOf", [one]), other]}
        case ast.Constant():
            return {"type": "null"}
        case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=[inner, *_])):
            return {"type": "array", "items": _type(inner, field, definitions)}
        case ast.Subscript(value=ast.Name(id="list"), slice=inner):
            return {"type": "array", "items": _type(inner, field, definitions)}
        case ast.Subscript(value=ast.Name(id="dict"), slice=ast.Tuple(elts=[_, inner])):
            values = _type(inner, field, definitions)
            return {"type": "object", "additionalProperties": values}
        case ast.Subscript(slice=inner):
            values = ast.literal_eval(inner)
            return {"enum": [*values] if isinstance(values, tuple) else [values]}
        case ast.Name(id=name) if name in _PLAIN:
            return {"type": _PLAIN[name]}
        case ast.Name(id="Pointer"):
            return {"$ref": "#/$defs/Address"}
        case ast.Name(id=name):
            named = field.named(name)
            if get_origin(named) is tuple:
                return _type(ast.parse(str(named), mode="eval").body, field, definitions)
            if not _is_object(named):
                return {"enum": _values(named)}
            title = f"{named.__module__.rpartition('.')[2]}.{name}"
            if title not in definitions:
                definitions[title] = {}  # one that holds itself refers to it
                definitions[title] = _object(_fields(named), definitions)
            return {"$ref": f"#/$defs/{title}"}
    raise TypeError(f"{field.module}: {field.key}: {ast.unparse(node)}")


def _laid_out(key: str, value: object, indent: str) -> str:
    """Write JSON; what holds objects has a line for each, a field stands in one line."""
    wide = isinstance(value, dict) and (key in ("$defs", "properties") or "properties" in value)
    if not isinstance(value, dict) or not wide:
        return json.dumps(value, ensure_ascii=False)
    inner = indent + "  "
    rows = [f'{inner}"{name}": {_laid_out(name, one, inner)}' for name, one in value.items()]
    return "{\n" + ",\n".join(rows) + f"\n{indent}}}"


def page_text(page: str) -> str:
    """Return the page with the tables between its marks written anew."""
    told: dict[type, tuple[str, str]] = {}

    def written(mark: re.Match[str]) -> str:
        kind = mark[1]
        rows = ["| field | what |", "| --- | --- |"]
        for field in _fields_of(kind):
            rows += _rows(field.key, field, kind, told)
        return "\n".join([f"<!-- fields of {kind} -->", *rows, "<!-- end -->"])

    return re.sub(r"<!-- fields of (\w+) -->\n.*?<!-- end -->", written, page, flags=re.DOTALL)


def _rows(path: str, field: Field, kind: str, told: dict[type, tuple[str, str]]) -> Iterator[str]:
    """Yield a row for a field and for each object below it; each shape is told of once."""
    below: dict[str, Field] = {}
    parts = [field.said()]
    for shape in field.shapes():
        if shape in told:
            place, other = told[shape]
            parts.append(f"as `{place}`" + (f" of kind `{other}`" if other != kind else ""))
        else:
            told[shape] = path, kind
            below |= {one.key: one for one in _fields(shape)}
    parts.append(", ".join(map(_brief, below.values())))
    text = ": ".join(filter(None, parts)).replace("|", r"\|")
    yield f"| `{path}` | {text} |"
    stem = f"{path}[]" if re.search(r"(list|tuple)\[", ast.unparse(field.kind)) else path
    for one in below.values():
        if one.shapes():
            yield from _rows(f"{stem}.{one.key}", one, kind, told)


def _brief(field: Field) -> str:
    """Return a field among others; one that is an object has a row of its own."""
    said = "" if field.shapes() else field.said()
    return f"`{field.key}`" + (f" ({said})" if said else "")


if __name__ == "__main__":
    SCHEMA.write_text(schema_text(), encoding="utf-8")
    PAGE.write_text(page_text(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
