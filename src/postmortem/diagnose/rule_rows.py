"""Rules that are rows of a table: each says what a rule of Python would, one function finds all."""

import functools
from collections.abc import Mapping
from typing import Any

from postmortem.diagnose.rule import Role, Rule, RuleFunction
from postmortem.knowledge.lookup import lines_of, load_table

Row = Mapping[str, Any]
Rows = Mapping[str, Row]
"""What a rule says of one case more, by the name of the case."""


def rules_of(table: str, case: str, finding: RuleFunction) -> tuple[Rule, ...]:
    """Return a rule for each `rule` of a table; `case` is the key that names a row of `means`.

    `finding` takes the `row` of a rule, those rows as `means`, and facts.
    """
    tables = load_table(table)
    facts = {k: v for k, v in finding.__annotations__.items() if k not in ("row", "means")}
    found = []
    for row in tables["rule"]:
        mine = [one for one in tables["means"] if one["rule"] == row["id"]]
        function = functools.partial(finding, row, {one[case]: one for one in mine})
        functools.update_wrapper(function, finding)
        function.__annotations__, function.__doc__ = facts, row["documentation"]
        found.append(
            Rule(
                row["id"],
                row["family"],
                Role.ROOT,
                lines_of(row["references"]),
                function,
                tuple(row.get("yields_to", "").split()),
            )
        )
    return tuple(found)
