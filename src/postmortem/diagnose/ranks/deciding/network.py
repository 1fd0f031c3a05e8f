"""NCCL's warning that its network failed, above what failed because of it."""

from postmortem.diagnose.ranks.attribution import Attribution
from postmortem.diagnose.ranks.causes import SaidLast
from postmortem.diagnose.ranks.deciding.case import Case, cited_line
from postmortem.diagnose.ranks.deciding.sites import timed_out
from postmortem.facts.last_lines import LastLine

_BROKE = ("nccl-ib-port", "nccl-ib-completion-12", "nccl-ofi-request")


def network_broke(case: Case, silent: int | None = None) -> Attribution | None:
    """Return NCCL's warning that its network failed, above the time-outs that follow from it.

    That of a host whose own port failed comes first: the others complain of it. Or the last one of
    the rank that is `silent` behind it.
    """
    waits = [f for s in case.about_peers() for f in s.about_peers]
    first = {f.file: f.line for f in reversed(waits)}
    own = [r for r in case.logs.remarks if r.match(*_BROKE)]
    if silent is None:
        broke = [r for r in own if r.line < first.get(r.file, 0)]
    else:
        broke = [r for r in own if case.logs.who(r.writer).rank == silent]
    broke.sort(key=lambda one: one.match(_BROKE[0]) is None)
    if not broke or not all(map(timed_out, case.about_peers())):
        return None
    known, said = broke[0].match(*_BROKE), waits[-1].said.words
    assert known is not None
    cause = SaidLast(broke[0].text, plain=True, form="peers", word=said, known=known.id)
    return Attribution(cause, evidence=tuple(map(cited_line, broke[:3])))


def network_before(case: Case, said: LastLine) -> Attribution | None:
    """Return NCCL's warning that its network failed, above a call of CUDA of the same process.

    It fails as NCCL puts away what the network still held.
    """
    warned = [(one, one.match("nccl-line")) for one in case.logs.remarks if one.file == said.file]
    call = next((p for r, p in warned if r.where == said.where and r.match("nccl-cuda-call")), None)
    for one, process in warned:
        known = one.match(*_BROKE)
        same = call and process and all(call[name] == process[name] for name in ("host", "pid"))
        if same and known is not None and one.line < said.line:
            cause = SaidLast(one.text, plain=True, form="nccl", word=said.text, known=known.id)
            return Attribution(cause, evidence=(cited_line(one), cited_line(said)))
    return None
