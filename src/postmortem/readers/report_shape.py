"""Whether a JSON document has the shape of our reports: what reads one may then rely on it.

Of JSON Schema it knows what our own schema uses (report/schema.json).
"""

import json
import pkgutil
from collections.abc import Mapping
from functools import cache
from typing import Any

_Schema = Mapping[str, Any]
_DEEPEST = 200
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_LARGEST = 1 << 64
"""Of a number: what counts, numbers and times things is smaller, and larger ones are no time."""


def misshapen(document: dict[str, Any]) -> str | None:
    """Return where a report is not as the schema has it, and how; None if it is nowhere.

    What an older version did not write yet is put in where the schema knows a value for nothing.
    """
    try:
        return _wrong(document, _schema(), "", 0)
    except RecursionError:
        return "is nested too deeply"


@cache
def _schema() -> _Schema:
    data = pkgutil.get_data("postmortem.report", "schema.json") or b""
    schema: _Schema = json.loads(data)
    return schema


def _wrong(value: object, schema: _Schema, at: str, depth: int) -> str | None:
    if depth > _DEEPEST:
        raise RecursionError
    schema = _resolved(schema)
    if "anyOf" in schema:
        found = [_wrong(value, one, at, depth + 1) for one in schema["anyOf"]]
        return None if None in found else found[0]
    if "enum" in schema and value not in schema["enum"]:
        return f"{at or 'it'} is none of the values that are known"
    if "const" in schema and value != schema["const"]:
        return f"{at} is another one"
    kind = schema.get("type")
    if kind is not None and not _is(value, kind):
        return f"{at or 'it'} is not of the type {kind}"
    if isinstance(value, list) and "items" in schema:
        rows = (_wrong(v, schema["items"], f"{at}[{i}]", depth + 1) for i, v in enumerate(value))
        return next((wrong for wrong in rows if wrong), None)
    return _wrong_object(value, schema, at, depth) if isinstance(value, dict) else None


def _wrong_object(value: dict[str, Any], schema: _Schema, at: str, depth: int) -> str | None:
    known: Mapping[str, _Schema] = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value and not _put_nothing(value, name, known.get(name, {})):
            return f"{at}.{name} is missing".lstrip(".")
    others = schema.get("additionalProperties")
    for name, one in value.items():
        rule = known.get(name, others)
        if isinstance(rule, dict):
            wrong = _wrong(one, rule, f"{at}.{name}".lstrip("."), depth + 1)
            if wrong:
                return wrong
    for case in schema.get("allOf", ()):
        if _wrong(value, case["if"], at, depth + 1) is None:
            wrong = _wrong(value, case["then"], at, depth + 1)
            if wrong:
                return wrong
    return None


def _put_nothing(value: dict[str, Any], name: str, schema: _Schema) -> bool:
    schema = _resolved(schema)
    if any(one.get("type") == "null" for one in schema.get("anyOf", ())):
        value[name] = None
    elif schema.get("type") == "array":
        value[name] = []
    else:
        return False
    return True


def _resolved(schema: _Schema) -> _Schema:
    while "$ref" in schema:
        schema = _schema()["$defs"][schema["$ref"].removeprefix("#/$defs/")]
    return schema


def _is(value: object, kind: str | list[str]) -> bool:
    kinds = [kind] if isinstance(kind, str) else kind
    if isinstance(value, bool):
        return "boolean" in kinds
    if not any(isinstance(value, _TYPES[one]) for one in kinds):
        return False
    return not isinstance(value, int) or -_LARGEST < value < _LARGEST
