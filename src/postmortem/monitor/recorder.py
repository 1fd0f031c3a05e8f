"""Frames as they are made: kept, written to the flight file, judged when their numbers are here."""

from collections import deque
from collections.abc import Callable
from typing import Any

from postmortem.diagnose.numerics.first_bad import is_bad
from postmortem.facts.frames import Cell, CellKind, Frame, Numbers, Phase
from postmortem.monitor.calls import Call, frame_of
from postmortem.monitor.flight_writer import FlightWriter
from postmortem.monitor.in_place import given_back, mark_given_back
from postmortem.monitor.masks import Masks
from postmortem.monitor.scans import Scans
from postmortem.monitor.trends import Trends
from postmortem.monitor.walk import Leaf

_LATEST = 2
"""So many batches later numbers are waited for that a device has not given by itself."""


class Recorder:
    """Takes the frames of one process in the order in which they are made."""

    def __init__(self, max_frames: int, bad: Callable[[Frame], None]) -> None:
        self.scans = Scans()
        self.masks = Masks()
        self.trends = Trends()
        self.flight: FlightWriter | None = None
        self.batch = 0
        self.made = 0
        """How many frames there were in all."""
        self.called = False
        """Whether there was a frame of a forward pass."""
        self._forward: deque[Frame | Call] = deque(maxlen=max_frames)
        self.backward: deque[Frame] = deque(maxlen=max_frames)
        self._bad = bad
        self._opening = True
        self._deferred: deque[tuple[Frame, frozenset[str]]] = deque()
        """Frames that wait for a device, and the names of inputs that were given back."""

    def open_batch(self) -> None:
        """Mark the next frame as the first one of a batch."""
        self._opening = True
        self.scans.forget()
        self.masks.forget()

    def call(
        self, module: str, class_name: str, weights: list[Any], pairs: list[Any], inputs: int
    ) -> Call:
        """Take a call all of whose numbers are here and finite."""
        self.made += 1
        call = Call(
            self.made, self.batch, module, class_name, self._opening, weights, pairs, inputs
        )
        self._opening = False
        self.called = True
        self._forward.append(call)
        see, edge = self.trends.see, 2 * inputs
        for at in range(edge, len(pairs), 2):
            numbers = pairs[at + 1]
            if not isinstance(numbers, str):
                see(module, class_name, self.batch, pairs[at], numbers)
        if self.flight is not None:
            self.flight.write_call(call)
        return call

    def gradient(
        self, module: str, class_name: str, name: str, numbers: Numbers, batch: int
    ) -> None:
        """Take a gradient whose numbers are here and finite."""
        self.made += 1
        cell = Cell(CellKind.GRADIENT, name, numbers)
        frame = Frame(self.made, batch, module, class_name, [cell], Phase.BACKWARD)
        self.backward.append(frame)
        if self.flight is not None:
            self.flight.write_gradient(frame, [name, numbers])

    @property
    def forward(self) -> list[Frame]:
        """The last frames of forward passes."""
        return [frame_of(call) for call in self._forward]

    @property
    def behind(self) -> bool:
        """Whether frames wait for the numbers of a device."""
        return bool(self._deferred)

    def frame(
        self,
        module: str,
        class_name: str,
        cells: list[Cell],
        leaves: list[Leaf],
        phase: Phase = Phase.FORWARD,
        batch: int | None = None,
    ) -> Frame:
        """Take the cells of a frame, and judge it at once if its numbers are here."""
        self.made += 1
        forward = phase is Phase.FORWARD
        at = self.batch if batch is None else batch
        opens = forward and self._opening
        frame = Frame(self.made, at, module, class_name, cells, phase, opens)
        if forward:
            self._opening = False
            self.called = True
            self._forward.append(frame)
        else:
            self.backward.append(frame)
        pending = bad = False
        for cell in cells:
            numbers = cell.numbers
            if numbers is None:
                continue
            if not numbers.ready:  # type: ignore[union-attr]
                pending = True
            elif not numbers.is_finite:
                bad = True
        if pending:
            self._deferred.append((frame, given_back(leaves) if forward else frozenset()))
        else:
            back = given_back(leaves) if bad and forward else frozenset()
            self._arrived(frame, bad, leaves, back)
        return frame

    def note(
        self,
        module: str,
        class_name: str,
        cells: list[Cell],
        batch: int,
        phase: Phase = Phase.FORWARD,
    ) -> None:
        """Keep cells that explain a frame before them, and are judged by nobody."""
        self.made += 1
        frame = Frame(self.made, batch, module, class_name, cells, phase)
        if phase is Phase.FORWARD:
            self._forward.append(frame)
        if self.flight is not None:
            self.flight.write(frame)

    def _arrived(self, frame: Frame, bad: bool, leaves: list[Leaf], back: frozenset[str]) -> None:
        if bad and frame.phase is Phase.FORWARD:
            self.masks.mark(frame.cells, leaves)
            mark_given_back(frame.cells, back)
        if frame.phase is Phase.FORWARD:
            for cell in frame.cells:
                if cell.kind is CellKind.OUTPUT and cell.numbers is not None and not cell.masked:
                    module, kind = frame.module, frame.class_name
                    self.trends.see(module, kind, frame.batch, cell.name, cell.numbers)
        if self.flight is not None:
            self.flight.write(frame)
        if bad and any(map(is_bad, frame.cells)):
            self._bad(frame)

    def settle(self, *, wait: bool = False) -> None:
        """Judge the frames whose numbers have come from a device; `wait`: all that there are.

        Frames are judged in their order. Numbers of a batch that is long over are waited for.
        """
        while self._deferred:
            frame, back = self._deferred[0]
            late = wait or frame.batch <= self.batch - _LATEST
            if not late and not all(_ready(cell) for cell in frame.cells):
                return
            self._deferred.popleft()
            bad = any(c.numbers is not None and not c.numbers.is_finite for c in frame.cells)
            self._arrived(frame, bad, [], back)

    def recent(self) -> list[Frame]:
        """Return the last frames of both directions in the order in which they were made."""
        return sorted([*self.forward, *self.backward], key=lambda frame: frame.number)


def _ready(cell: Cell) -> bool:
    return cell.numbers is None or bool(cell.numbers.ready)  # type: ignore[union-attr]
