"""The schema of the JSON reports, read and checked once: that takes longer than any report."""

import json
from importlib import resources

import jsonschema

SCHEMA = json.loads(resources.files("postmortem.report").joinpath("schema.json").read_text())
_VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def validate(document: object) -> None:
    """Raise `jsonschema.ValidationError` where a report is not as the schema has it.

    That the schema itself is one is checked in unit/report/test_schema.py.
    """
    error = jsonschema.exceptions.best_match(_VALIDATOR.iter_errors(document))
    if error is not None:
        raise error
