"""Two modules import each other, and one asks for a name that the other has not yet got to.

What it means
    Python runs a module from its first line on. The second import of it, from within the first,
    gets what has run by then.
How to be sure
    Both files stand in the traceback, the one that is asked above the one that asks.
What to do
    Move one of the imports into the function that needs it, or what both need into a third file.
"""

from pathlib import Path

from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, rule
from postmortem.facts.importing import Importing


@rule(yields_to=("import_shadowed",))
def import_circular(seen: Importing) -> Findings:
    said = seen.raised
    match = said.match("py-torch-shadow") if said is not None else None
    if said is None or match is None:
        return
    *above, asks = said.frames or (("", 0, ""),)
    asked = next((one for one in above if _module(one[0], match["module"])), None)
    if asked is None:
        return
    one, other = Path(asked[0]).name, Path(asks[0]).name
    yield Finding(
        title=f"{one} and {other} import each other",
        cause=f"{asks[0]}:{asks[1]} needs a name of {match['module']}, which is still at its line "
        f"{asked[1]}, an import.",
        confidence=Confidence.CERTAIN,
        next_steps=(
            f"move the import at {asked[0]}:{asked[1]} below what {other} needs, or into the "
            "function that uses it",
            "or put what both need into a third module",
        ),
        evidence=(
            Evidence(said.type, said.message[:300]),
            *(Evidence(f"{file}:{line}", f"in {name}") for file, line, name in said.frames[-4:]),
        ),
    )


def _module(file: str, name: str) -> bool:
    path = Path(file)
    return name.rpartition(".")[2] in (path.stem, path.stem == "__init__" and path.parent.name)
