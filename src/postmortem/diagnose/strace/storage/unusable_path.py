"""A path is too long, or its links go round in circles.

What it means
    ENAMETOOLONG: a component is longer than 255 bytes or the path than 4,095 (bytes, not
    characters; encrypted file systems allow fewer, about 143). ELOOP: more than 40 links had to
    be followed, or a link was opened with O_NOFOLLOW.

How to be sure
    Count the bytes; namei -l shows the links.

What to do
    Shorten names that are put together from settings (run names, hyper-parameters, hashes), or
    break the circle of links.
"""

from postmortem.diagnose.rule import Confidence, Findings, rule
from postmortem.diagnose.strace.calls import named, quoted, times
from postmortem.diagnose.strace.severity import of_calls, worst
from postmortem.facts.syscall_logs import Logs
from postmortem.facts.syscalls import Failures

_WORDS = {"ENAMETOOLONG": "path too long", "ELOOP": "links go round in circles"}
_MEANING = {
    "ENAMETOOLONG": "a name has more than 255 bytes, or the whole path more than 4,095",
    "ELOOP": "more than 40 links to follow, or a link where none is allowed (O_NOFOLLOW)",
}


@rule("https://man7.org/linux/man-pages/man7/path_resolution.7.html")
def unusable_path(failures: Failures, logs: Logs) -> Findings:
    # epoll_ctl() gives ELOOP for descriptors that watch each other: no path has to do with it.
    groups = [
        group
        for group in worst(logs, failures.of("ENAMETOOLONG", "ELOOP"))
        if group.target.source == "argument" or group.target.kind == "file"
    ]
    if not groups:
        return
    group = groups[0]
    path = (group.target.path or "").encode("utf-8", "surrogateescape")
    longest = max(map(len, path.split(b"/")))
    steps = {
        "ELOOP": (
            f"namei -l {quoted(group.target)} : shows every component and link",
            "remove the link that points back",
        ),
        "ENAMETOOLONG": (
            f"the path has {len(path):,} bytes, its longest name {longest:,}: 4,095 and 255 "
            "are allowed",
            "choose a shorter name or folder (for sockets: at most 107 bytes)",
        ),
    }
    yield of_calls(
        logs,
        groups,
        Confidence.CERTAIN,
        title=f"{_WORDS[group.errno]}: {named(group.target, 55)}",
        cause=f"{times(logs, group)} gave {group.errno}: {_MEANING[group.errno]}",
        next_steps=steps[group.errno],
    )
