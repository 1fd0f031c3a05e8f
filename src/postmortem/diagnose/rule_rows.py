"""Rules that are rows of a table: each says what a rule of Python would, one function finds all."""

from collections.abc import Callable, Mapping
from typing import Any

from postmortem.diagnose.rule import Role, Rule, RuleFunction
from postmortem.knowledge.lookup import lines_of, load_table

Row = Mapping[str, Any]
Rows = Mapping[str, Row]
"""What a rule says of one case more, by the name of the case."""


def rules_of(table: str, case: str, bound: Callable[[Row, Rows], RuleFunction]) -> tuple[Rule, ...]:
    """Return a rule for each `rule` of a table; `case` is the key that names a row of `means`.

    `bound` makes the function of a rule of its row and those rows.
    """
    tables = load_table(table)
    found = []
    for row in tables["rule"]:
        mine = [one for one in tables["means"] if one["rule"] == row["id"]]
        function = bound(row, {one[case]: one for one in mine})
        function.__doc__ = row["documentation"]
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
