"""What many cores together say first."""

from collections.abc import Sequence

from postmortem.diagnose.stacks.fold import Fold
from postmortem.text import counted


def headline(found: Sequence[Fold]) -> str:
    """Return in one sentence how many crashes the cores are, and which comes first."""
    total = counted(sum(len(fold.cores) for fold in found), "core")
    lead = found[0]
    if len(found) == 1:
        same = "of one crash" if len(lead.cores) > 1 else "read"
        return f"{total} {same}: {lead.example.verdict}"
    parts = [f"{len(fold.cores)} x {fold.summary}" for fold in found[:3]]
    if len(found) > 3:
        parts.append(f"{len(found) - 3} more")
    return f"{total}, {len(found)} different crashes: {'; '.join(parts)}"
