"""A host name could not be resolved.

What it means
    The process asked a name server (port 53) and made no connection to any other peer
    afterwards: the servers did not answer (each try takes 5 seconds, in a log: poll = 0
    (Timeout)), refused, or do not know the name. In containers and on compute nodes without DNS
    this is common.
How to be sure
    getent ahosts NAME on the same host, in the same container; cat /etc/resolv.conf.
What to do
    Use an address or a name that /etc/hosts has (MASTER_ADDR), or repair resolv.conf. A search
    list makes short names slow.
"""

from postmortem.diagnose.names import clip
from postmortem.diagnose.rule import Confidence, Finding, Findings, rule
from postmortem.diagnose.strace.calls import who
from postmortem.diagnose.strace.nameservers import (
    AskedServer,
    answer,
    answer_words,
    asked_names,
    asked_servers,
)
from postmortem.diagnose.strace.peers import reached_anything
from postmortem.diagnose.strace.severity import weigh_fate
from postmortem.facts.syscall_logs import Fate, Logs
from postmortem.patterns import Pattern
from postmortem.text import shell_word

# The name of an address (RFC 1035, 3.5; RFC 3596), perhaps cut by strace -s.
_REVERSE = Pattern(r"^(?:\d{1,3}\.){4}in-a|^(?:[0-9a-f]\.){8,}|\.(?:in-addr|ip6)\.arpa$")


@rule(
    "https://man7.org/linux/man-pages/man5/resolv.conf.5.html",
    "https://man7.org/linux/man-pages/man3/getaddrinfo.3.html",
)
def name_not_resolved(logs: Logs) -> Findings:
    asked: dict[int, list[AskedServer]] = {}
    for one in asked_servers(logs):
        asked.setdefault(one.pid, []).append(one)
    for pid, tries in asked.items():
        fate, last = logs.fate_of(pid, tries[-1].line), tries[-1].line
        if fate in (Fate.SURVIVED, Fate.FAILED_LATER) or reached_anything(logs, pid, last):
            continue
        weight = weigh_fate(fate, Confidence.LIKELY)
        servers = list(dict.fromkeys(one.server for one in tries))
        names = asked_names(logs, pid)
        if names and all(_REVERSE.search(name) for name in names):
            continue  # a log is to show a name in place of an address: nobody fails of that
        names = [name for name in names if not _REVERSE.search(name)]
        name = f"the name {names[0]}" if names else "a host name"
        code = answer(logs, pid, tries[0].line)
        if code == "answered":
            continue
        yield Finding(
            title=f"{clip(name, 50)} was not resolved: {clip(', '.join(servers), 30)} "
            f"{f'says {code}' if code else 'gave no answer'}",
            cause=f"{who(pid)} asked the name {'server' if len(servers) == 1 else 'servers'} "
            f"{', '.join(servers[:3])} for {name} and connected to nobody after that; "
            f"{answer_words(code)}{weight.words}",
            confidence=weight.confidence,
            next_steps=(
                f"getent ahosts {shell_word(names[0]) if names else 'NAME'} ; "
                "cat /etc/resolv.conf : same host, same container",
                "use an address, or a name of /etc/hosts, for MASTER_ADDR",
            ),
            evidence=tuple(one.evidence for one in tries[:3]),
            role=weight.role,
        )
        return
