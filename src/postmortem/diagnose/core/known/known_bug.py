"""The process shows a bug of a library that its developers know.

What it means
    The version that ran has a documented bug, and what that bug does is seen here: functions on
    a stack, words, a signal, a setting. A version that is known to be free of it names nothing.
How to be sure
    Compare the stack with the report that is referred to, and run once with the version that
    has the fix, or with the work-around.
What to do
    What the record says: postmortem rules ID shows it, where ID is named in the cause.
"""

from postmortem.diagnose.rule import Findings, Role, rule
from postmortem.facts.crash import (
    AbortMessage,
    CppException,
    EarlierExceptions,
    FatalPythonError,
    Signal,
)
from postmortem.facts.last_words import KnownWords
from postmortem.facts.process import Process
from postmortem.facts.threads import Thread, Threads
from postmortem.facts.versions import Versions


@rule(
    "https://github.com/NVIDIA/nccl/issues",
    "https://github.com/pytorch/pytorch/issues",
    role=Role.CONTRIBUTING,
)
def known_bug(
    process: Process,
    versions: Versions | None,
    threads: Threads,
    signal: Signal | None,
    words: KnownWords | None,
    message: AbortMessage | None,
    exception: CppException | None,
    earlier: EarlierExceptions | None,
    fatal: FatalPythonError | None,
) -> Findings:
    from postmortem.diagnose.known_bugs import SeenStack, Sight, find_bugs

    texts = [("abort message", message.text)] if message is not None else []
    if fatal is not None:
        texts.append(("fatal Python error", fatal.message))
    flying = (exception, *(earlier.items if earlier is not None else ()))
    texts += [
        (f"C++ exception, thread {one.tid}", f"{one.type}: {one.what}")
        for one in flying
        if one is not None and one.what
    ]
    items = threads.items
    texts += [
        (
            f"Python exception, thread {one.tid}",
            f"{one.python_exception.type}: {one.python_exception.message}",
        )
        for one in items
        if one.python_exception is not None
    ]

    distinct: dict[int, Thread] = {}  # threads that stand in one place share their frames
    for one in items:
        distinct.setdefault(id(one.frames), one)

    def seen(thread: Thread) -> SeenStack:
        return SeenStack(
            f"thread {thread.tid}",
            tuple(
                f"{f.file} {f.function}" if f.kind == "python" and f.file else f.function
                for f in thread.frames
            ),
            tuple(f.module.rpartition("/")[2] for f in thread.frames if f.module),
            thread.crashed,
        )

    yield from find_bugs(
        versions or Versions(machine=process.machine),
        Sight(
            stacks=tuple(map(seen, distinct.values())),
            texts=tuple(texts),
            messages=tuple((w.signature, w.where, w.text) for w in words.items) if words else (),
            signals=(signal.name,) if signal is not None else (),
            variables=dict((*process.initial_env, *process.env)),
        ),
        may_be_root=True,
    )
