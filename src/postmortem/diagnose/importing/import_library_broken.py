"""The dynamic loader refuses a compiled library that the module needs.

What it means
    A symbol that it was built against is not in the library that was loaded, or the library
    has an older version of it, or is not found at all: two builds that do not belong together.
How to be sure
    The loader's own words name the file and what is missing; that much is certain.
What to do
    Install builds that belong together; for an extension of yours, build it anew against what
    is installed.
"""

from pathlib import Path

from postmortem.diagnose.rule import Confidence, Evidence, Finding, Findings, Subject, rule
from postmortem.facts.importing import Importing
from postmortem.knowledge.messages import missing_library
from postmortem.patterns import Pattern
from postmortem.text import shell_word

_TORCH = Pattern(r"c10|at\d|torch")


@rule()
def import_library_broken(seen: Importing) -> Findings:
    said = seen.raised
    if said is None:
        return
    if match := said.match("ld-symbol"):
        symbol = match["what"][:60]
        title = f"{Path(match['file']).name} needs the symbol {symbol}, which no library defines"
        steps = [f"nm -DC {shell_word(match['file'])} | grep ' U '   shows what it needs"]
        if _TORCH.search(match["what"]):
            steps.insert(0, "it was built for another PyTorch: build or install it for this one")
        else:
            steps.insert(0, f"ldd -r {shell_word(match['file'])}   shows all that is missing")
        cause = "The module was built against another version of a library that was loaded."
    elif match := said.match("ld-version"):
        by = match["by"] or "a library"
        name = Path(match["file"]).name
        title = f"{name} is older than {match['what']}, which {Path(by).name} needs"
        steps = [
            f"strings {shell_word(match['file'])} | grep {match['what'].partition('_')[0]}_"
            "   shows what it has",
            "put a newer one before it in LD_LIBRARY_PATH (conda install -c conda-forge "
            "libstdcxx-ng), or install a build for this system",
        ]
        cause = f"{by} was built on a newer system than the library that is found first."
    elif match := said.match("ld-not-opened"):
        title = f"the library {match['what']} is not found"
        known = missing_library(f"{said.type}: {said.message}")
        steps = [*known.next_steps] if known is not None else []
        cause = "No folder that the dynamic loader searches has it."
        if seen.found_at:
            folder = str(Path(seen.found_at[0]).parent)
            steps = [f"export LD_LIBRARY_PATH={shell_word(folder)}:$LD_LIBRARY_PATH"]
            cause += f" It is at {seen.found_at[0]}, which the loader does not search."
    else:
        return
    yield Finding(
        title=title,
        cause=cause,
        confidence=Confidence.CERTAIN,
        next_steps=tuple(steps),
        evidence=(
            Evidence(said.type, said.message[:300]),
            *(Evidence("found", one) for one in seen.found_at),
        ),
        about=Subject(path=match["file"] or match["what"]),
    )
