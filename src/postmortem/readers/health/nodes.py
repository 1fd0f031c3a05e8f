"""Which nodes a scheduler calls down, or gives no work to: as sinfo, kubectl and others print it.

A table with a head, or a block of fields for each node, of scontrol and pbsnodes. The forms: Slurm
src/sinfo/opts.c, src/common/node_conf.c (``*`` behind a state: the node does not answer), kubectl
get nodes, LSF bhosts, PBS pbsnodes.
"""

from collections.abc import Iterator

from postmortem.facts.health import NODE, Reading
from postmortem.facts.host_names import NoHosts, expand
from postmortem.patterns import Pattern
from postmortem.readers.signatures import Signatures
from postmortem.records import record

_HEAD = Pattern(
    r"(?=.*\b(?:STATE|STATUS|state|TIMESTAMP)\b)"
    r"(?:.*\b(?:NODELIST|HOSTNAMES)(?!\()|NAME +STATUS +ROLES +AGE\b|HOST_NAME +STATUS +JL/U\b"
    r"|vnode +state +njobs\b)"
)
_OF_JOBS = Pattern(r"\bJOB_?ID\b|JobID")
_WORDS = ("NODELIST", "HOSTNAMES", " ROLES ", "HOST_NAME", "vnode ", "NodeName=", " state = ")
"""Of each form one: all files of a folder are looked at."""
_NAMES = ("NODELIST", "HOSTNAMES", "NAME", "HOST_NAME", "vnode")
_STATES = ("STATE", "STATUS", "state")
_NAME = Pattern(r"[\w.,\[\]-]+")
_STATE = Pattern(r"[A-Za-z][\w,+-]*[*~#!%$@^-]*")
_DRAINED = Pattern(r"(?i)drain|drng|maint|SchedulingDisabled|closed_Adm|offline|^fail")
_DOWN = Pattern(r"(?i)\bdown\b|NotReady|unavail|unreach|state-unknown")
_SILENT = Pattern(r"\*$|NOT_RESPONDING")
_LOST = "slurm-node-failed"
_BLOCKS = Pattern(r"(?m)^(?=NodeName=\S)|^(?=[A-Za-z][\w.-]*$)")
_NAME_OF = Pattern(r"(?:NodeName=)?(\S+)")
_STATE_OF = Pattern(r"\s[Ss]tate ?= ?(\S+)")
_REASON_OF = Pattern(r"\s(?:Reason=|comment = )([^\[\n]*)")
_BESIDE = Pattern(
    r"[A-Z][a-z]{2} [A-Z][a-z]{2} .*\d{4}$|.*[$#>%] *(?:sinfo|kubectl|bhosts|pbsnodes|scontrol)\b"
    r"|(?:sinfo|kubectl|bhosts|pbsnodes|scontrol) .*$|[\s-]*$"
)
"""The day above sinfo's list, a command, a rule."""


@record
class _Node:
    name: str
    state: str
    reason: str


def lists_nodes(text: str) -> bool:
    """Return whether a text is such a list and nothing else, but for the commands above it."""
    return any(word in text for word in _WORDS) and bool(_nodes(text))


def readings_of_nodes(text: str) -> Iterator[Reading]:
    """Yield a reading for each node that is down or drained, or one that none is."""
    bad: dict[tuple[str, str], str] = {}
    for node in _nodes(text):
        drained = _DRAINED.search(node.state)
        silent = _SILENT.search(node.state) and not drained
        down = silent or _DOWN.search(node.state)
        if down or drained:
            for host in _hosts(node.name):
                key = f"{NODE}{host}", "node_down" if down else "node_drained"
                bad[key] = bad.get(key) or node.reason
    for (subject, name), reason in bad.items():
        yield Reading(subject, name, 1, "", reason[:80])
    if not bad:
        yield Reading("nodes", "node_down", 0, "")


def _hosts(names: str) -> list[str]:
    try:
        return expand(names)
    except NoHosts:
        return [names]


def _nodes(text: str) -> list[_Node]:
    """Return what is told of nodes; nothing where a line tells of anything else."""
    lines = [line.rstrip() for line in text.splitlines() if not _BESIDE.match(line)]
    found = _of_table(lines) if lines and _HEAD.match(lines[0].strip()) else _of_blocks(lines)
    nodes = [*found]
    known = [one for one in nodes if one is not None]
    return known if len(known) == len(nodes) else []


def _of_table(lines: list[str]) -> Iterator[_Node | None]:
    """Yield a node, or several of one state, for each row; None for a line that is none.

    Only a reason has blanks in it: the first or the last column.
    """
    head: list[str] = []
    for line in lines:
        bar = "|" if "|" in line else None
        if _HEAD.match(line.strip()):
            head = [one.strip() for one in line.split(bar)]
            if _OF_JOBS.search(line):
                yield None
            continue
        first = head[0] == "REASON"
        parts = (line.rsplit if first else line.split)(bar, len(head) - 1)
        cells: dict[str, str] = {}
        for name, cell in zip(head, parts, strict=False):
            cells.setdefault(name, cell.strip())
        reason = cells.get("REASON", "")
        name = next((cells[one] for one in _NAMES if one in cells), "")
        state = next((cells[one] for one in _STATES if one in cells), "")
        if first and not state:  # `sinfo -R` lists none that works
            lost = any(one.id == _LOST for one in Signatures.load("line").matches([line])[0])
            state = "down" if lost else "drained"
        is_row = _NAME.fullmatch(name) and _STATE.fullmatch(state)
        yield _Node(name, state, reason) if is_row else None


def _of_blocks(lines: list[str]) -> Iterator[_Node | None]:
    for block in _BLOCKS.split("\n".join(lines)):
        name, state, reason = (one.search(block) for one in (_NAME_OF, _STATE_OF, _REASON_OF))
        foreign = not block[:1].isalpha() or any(
            not line[:1].isspace() for line in block.splitlines()[1:]
        )
        if not block:
            continue
        if foreign or name is None or state is None:
            yield None
            return
        yield _Node(name[1], state[1], reason[1].strip() if reason else "")
