"""The module, or one that it imports, is not there, or raises while it is imported.

What it means
    Where a module is missing, this Python does not have it: others may. Any other exception
    comes from the module's own code.
How to be sure
    The last line of the traceback; `python -m pip list` of this very Python.
What to do
    Install what is missing into this Python, or repair the line.
"""

from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role, rule
from postmortem.facts.importing import Importing
from postmortem.text import shell_word


@rule(yields_to=("import_shadowed", "import_library_broken"), yields_as=Role.CONTEXT)
def import_raised(seen: Importing) -> Findings:
    said = seen.raised
    if said is None:
        return
    python = shell_word(seen.python)
    evidence = [Evidence(said.type, said.message[:300])]
    evidence += [Evidence(f"{file}:{line}", f"in {name}") for file, line, name in said.frames[-3:]]
    if said.type == "ModuleNotFoundError" and said.module:
        top = said.module.partition(".")[0]
        needed = "" if top == seen.name.partition(".")[0] else f", which {seen.name} imports"
        title = f"there is no module {said.module}{needed}"
        steps = [f"{python} -m pip install {shell_word(top)}   if that is the name of its package"]
        if seen.alike:
            steps.insert(0, f"a typo? this Python has {', '.join(seen.alike)}")
        cause = f"{seen.python} has none of that name on its path."
    else:
        at = f" at {said.frames[-1][0]}:{said.frames[-1][1]}" if said.frames else ""
        title = (
            f"import {seen.name} raises {said.type}: {said.message.splitlines()[0][:60]}"
            if (said.message.strip())
            else f"import {seen.name} raises {said.type}"
        )
        steps = [f"{python} -X faulthandler -c {shell_word('import ' + seen.name)}"]
        cause = f"The exception comes from code that runs when it is imported{at}."
    yield Finding(
        title=title,
        cause=cause,
        confidence=Confidence.CERTAIN,
        next_steps=tuple(steps),
        evidence=tuple(evidence),
    )
