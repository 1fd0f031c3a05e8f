"""The processes of a command, as they come and go."""

import select
import subprocess
import sys

from postmortem.run.family import Family

PARENT = """
import os
child = os.fork() or os._exit(3)
print(child, flush=True)
input()
"""


def test_who_has_ended_does_not_begin_again_where_its_parent_does_not_wait_for_it() -> None:
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", PARENT]
    with (
        subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as parent,
        select.epoll() as poll,
    ):
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        family = Family(parent.pid, poll)
        family.scan()
        ((descriptor, _),) = poll.poll(60)
        member = family.of_descriptor(descriptor)
        assert member is not None
        family.ends(member)
        family.scan()
        assert [one.code for one in family.everyone() if one.pid == child] == [3]
        parent.communicate("\n")
        family.forget()
