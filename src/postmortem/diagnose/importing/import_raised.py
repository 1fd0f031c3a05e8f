"""The module, or one that it imports, is not there, or raises while it is imported.

What it means
    Where a module is missing, this Python does not have it: others may. Any other exception
    comes from the module's own code.
How to be sure
    The last line of the traceback; `python -m pip list` of this very Python.
What to do
    Install what is missing into this Python, or repair the line.
"""

import sys

from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Role, rule
from postmortem.facts.importing import Importing
from postmortem.text import cut, shell_word


@rule(
    yields_to=("import_shadowed", "import_circular", "import_library_broken"),
    yields_as=Role.CONTEXT,
)
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
        cause = f"{seen.python} has none of that name on its path."
        if seen.package is not None:
            parent = said.module.rpartition(".")[0]
            title = f"{f'{parent} {seen.package}'.rstrip()} has no module {said.module}{needed}"
            cause = f"{parent} is there, of a version without it."
            steps = [f"{python} -m pip install -U {shell_word(top)}   or the version that has it"]
            if top in sys.stdlib_module_names:
                steps = [f"{python} -VV   tells whose library it is"]
        if seen.alike:
            steps.insert(0, f"a typo? this Python has {', '.join(seen.alike)}")
    else:
        at = f" at {said.frames[-1][0]}:{said.frames[-1][1]}" if said.frames else ""
        words = (said.message.strip().splitlines() or [""])[0]
        title = f"import {seen.name} raises {said.type}{words and ': '}{cut(words, 100)}"
        steps = [f"{python} -X faulthandler -c {shell_word('import ' + seen.name)}"]
        cause = f"The exception comes from code that runs when it is imported{at}."
    yield Finding(
        title=title,
        cause=cause,
        confidence=Confidence.CERTAIN,
        next_steps=tuple(steps),
        evidence=tuple(evidence),
    )
