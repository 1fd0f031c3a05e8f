"""A file of yours has the name of an installed module, and is imported in its place.

What it means
    Python looks in the current folder (for a script: in the script's) and in those of
    PYTHONPATH before it looks among what is installed. All who import that name get your file.
How to be sure
    Import it from another folder: it works there.
What to do
    Rename the file, and remove its entry in __pycache__.
"""

from pathlib import Path

from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role, rule
from postmortem.facts.importing import Importing, Shadow
from postmortem.text import shell_word


@rule()
def import_shadowed(seen: Importing) -> Findings:
    for shadow in seen.shadows:
        yield _finding(seen, shadow)


def _finding(seen: Importing, shadow: Shadow) -> Finding:
    blamed = _is_blamed(seen, shadow)
    return Finding(
        title=f"{Path(shadow.file).name} hides the installed module {shadow.name}",
        cause=f"import {shadow.name} finds {shadow.file} before {shadow.hides}.",
        confidence=Confidence.LIKELY if blamed else Confidence.POSSIBLE,
        next_steps=(
            f"mv {shell_word(shadow.file)} {shell_word(_other(shadow.file))}",
            f"{shell_word(seen.python)} -Ic 'import {shadow.name}'   imports what is hidden",
        ),
        evidence=(Evidence("sys.path", f"{shadow.file} stands before {shadow.hides}"),),
        role=None if blamed else Role.CONTEXT,
    )


def _is_blamed(seen: Importing, shadow: Shadow) -> bool:
    """Whether the failure speaks of the module, or comes out of the file."""
    if seen.raised is None:
        return False
    return (
        shadow.name in (seen.raised.module, (seen.raised.module or "").partition(".")[0])
        or f"'{shadow.name}'" in seen.raised.message
        or any(file == shadow.file for file, _, _ in seen.raised.frames)
    )


def _other(file: str) -> str:
    path = Path(file)
    return str(path.with_name(f"my_{path.name}"))
