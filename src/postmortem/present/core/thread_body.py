"""The JSON fields of threads and their groups, the same in every kind of report that has them."""

from postmortem.diagnose.stacks.activity import area, kind_of, role
from postmortem.diagnose.stacks.groups import Group
from postmortem.facts.threads import Frame, Thread, Wait
from postmortem.report.contract import fill
from postmortem.report.contract import threads as shapes


class ThreadBodies:
    """Lays threads of one process down; frames that threads share are one object in all of them."""

    def __init__(self, main_tid: int, executable: str | None, *, with_locals: bool = False) -> None:
        self._main_tid = main_tid
        self._executable = executable
        self._with_locals = with_locals
        # What threads share, by its id, with the object itself, so that the id stays its own.
        self._frames: dict[int, tuple[Frame, dict[str, object]]] = {}
        self._stacks: dict[int, tuple[object, list[dict[str, object]]]] = {}
        self._roles: dict[tuple[object, ...], str | None] = {}

    def of(self, thread: Thread, group: int | None) -> dict[str, object]:
        """Return the fields of one thread, `frames` the last of them."""
        return fill(
            shapes.Thread,
            thread,
            role=self._role(thread),
            group=group,
            waits_for=_wait(thread.waits_for),
            frames=self._stack(thread.frames),
        )

    def _role(self, thread: Thread) -> str | None:
        if thread.tid == self._main_tid:
            return role(thread, self._main_tid, self._executable)
        # all that `role` looks at
        key = (id(thread.frames), thread.name, thread.python_name is None, thread.stopped is None)
        if key not in self._roles:
            self._roles[key] = role(thread, self._main_tid, self._executable)
        return self._roles[key]

    def _stack(self, frames: tuple[Frame, ...]) -> list[dict[str, object]]:
        known = self._stacks.get(id(frames))
        if known is None:
            known = self._stacks[id(frames)] = frames, [self._frame(frame) for frame in frames]
        return known[1]

    def _frame(self, frame: Frame) -> dict[str, object]:
        known = self._frames.get(id(frame))
        if known is None:  # the frame is kept, so that its id stays its own
            known = self._frames[id(frame)] = frame, self._fields(frame)
        return known[1]

    def _fields(self, frame: Frame) -> dict[str, object]:
        return fill(
            shapes.FrameLocals if self._with_locals else shapes.Frame,
            frame,
            note=kind_of(frame, self._executable).note,
            area=area(frame, self._executable),
        )


def group_body(group: Group) -> dict[str, object]:
    """Return the fields of threads that stand alike."""
    return fill(shapes.Group, group, role=group.activity.role, state=group.activity.state)


def _wait(wait: Wait | None) -> dict[str, object] | None:
    if wait is None:
        return None
    sure = None if wait.holder is None else "certain" if wait.certain else "likely"
    return fill(shapes.Wait, wait, confidence=sure)
