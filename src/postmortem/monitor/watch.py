"""`NumericsMonitor`: which module, batch and rank went bad first, found while training runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from contextlib import suppress
from os import PathLike
from typing import Any, Literal, TextIO

import torch

from postmortem.diagnose.numerics.first_bad import FirstBad
from postmortem.facts.frames import Cell, CellKind, Frame, Phase
from postmortem.monitor.backward import Backward
from postmortem.monitor.call_depth import Calls
from postmortem.monitor.calls import Call
from postmortem.monitor.errors import NumericsError, shortened, warn_if_unused
from postmortem.monitor.flight_writer import FlightWriter
from postmortem.monitor.graph_rows import CompiledRows
from postmortem.monitor.hooks import BatchHook, CallHook
from postmortem.monitor.ranks import Ranks, place_among_ranks
from postmortem.monitor.recomputed import Recomputed
from postmortem.monitor.recorder import Recorder
from postmortem.monitor.save_guard import bad_to_save
from postmortem.monitor.untracked import Given
from postmortem.monitor.verdict import Verdict
from postmortem.monitor.walk import inputs_of, learn_opaque, outputs_of
from postmortem.monitor.weights import Weights
from postmortem.records import replace
from postmortem.report.frame_text import frame_text

log = logging.getLogger("postmortem.monitor")

_graph_task: Callable[[], int] = getattr(torch._C, "_current_graph_task_id", lambda: -1)
_NO_WEIGHTS: list[Any] = []
_STOPPED = "NumericsMonitor: the frames above this traceback show what led to it"


class NumericsMonitor:
    """Watches every module of a model; raises `NumericsError` when NaN or Inf come up.

    A context manager; or `attach()` and `detach()`. Batches are calls of the model itself, counted
    from 0.

    max_frames         so many frames (calls of modules) are kept, and printed when numbers go bad
    trace_batches      batches whose frames are all printed; nothing is raised during them
    abort_after_batch  ends the run after this batch
    every              looks at every n-th batch only
    gradients          also looks at each gradient when it has been accumulated
    optimizer_state    also looks at the optimizer's state after every n-th step; 0: never
    on_bad             "raise", or "report": print and go on
    flight             file, or folder, in which the last frames survive the process
    process_group      ranks that stop together: "auto" (all, if several), None, or a group
    out                where reports go; standard output
    """

    _abort_argument = "abort_after_batch"

    def __init__(
        self,
        model: torch.nn.Module,
        *,
        max_frames: int = 21,
        trace_batches: Collection[int] = (),
        abort_after_batch: int | None = None,
        every: int = 1,
        gradients: bool = True,
        optimizer_state: int = 0,
        on_bad: Literal["raise", "report"] = "raise",
        flight: str | PathLike[str] | None = None,
        process_group: Any = "auto",
        out: TextIO | None = None,
    ) -> None:
        if every < 1 or max_frames < 1:
            raise ValueError("every and max_frames must be at least 1")
        if on_bad not in ("raise", "report"):
            raise ValueError(f"on_bad must be 'raise' or 'report', not {on_bad!r}")
        self.model = model
        self._unused = warn_if_unused(self)
        self._trace = frozenset(trace_batches)
        self._abort_after = abort_after_batch
        self._every = every
        self._flight_path = flight
        self._handles: list[Any] = []
        self._modules: list[torch.nn.Module] = []
        """Those that have hooks."""
        self._last: dict[str, dict[str, Any]] = {}
        """What hooks remember of the last call of their modules."""
        self._given: tuple[Given, ...] = ()
        """The arguments of the model's call that runs."""
        self._watching = True
        self._model_called = False
        self._calls = Calls(model)
        self._told = False
        """Whether somebody says when a batch begins."""
        self._slowly = bool(self._trace)
        self._ranks = Ranks(process_group)
        self._records = Recorder(max_frames, lambda frame: self._verdict.judge(frame))
        self._verdict = Verdict(
            model,
            self._records,
            self._ranks,
            trace=self._trace,
            on_bad=on_bad,
            out=out,
            message=self._message,
            blind=lambda: self._watch(False),
            previous=self._last_call,
        )
        self._weights = Weights(self._records.scans)
        self._recomputed = Recomputed()
        self._backward = Backward(
            self._records,
            self._weights,
            stop=self._verdict.stop,
            gradients=gradients,
            state_every=optimizer_state,
            alone=lambda: not self._ranks.several(),
        )
        self._verdict.backward = self._backward
        self._compiled: CompiledRows | None = None

    def __enter__(self) -> NumericsMonitor:
        return self.attach()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.detach()
            return
        with suppress(NumericsError, RuntimeError):  # something else is on its way out already
            self._records.settle(wait=True)
        self._remove("stopped" if issubclass(kind, NumericsError) else "failed")

    def attach(self) -> NumericsMonitor:
        """Put the hooks in place; before the first call of a compiled model."""
        if self._handles:
            return self
        self._unused.detach()
        self._verdict.raised = False
        self._calls.forget()
        try:
            self._put_hooks()
        except BaseException:
            self._remove("failed")
            raise
        return self

    def _put_hooks(self) -> None:
        named = list(self.model.named_modules())
        scripted = [name for name, one in named if isinstance(one, torch.jit.ScriptModule)]
        if scripted:
            log.warning(
                "%d modules are compiled by torch.jit and take no hooks (first: %s): of them only "
                "gradients are seen, and what modules around them are given and give",
                len(scripted),
                scripted[0] or "the model",
            )
        if self._flight_path is not None:
            self._records.flight = FlightWriter.open(
                self._flight_path, self.model, *place_among_ranks()
            )
        hooked = [(name, module) for name, module in named if name not in scripted]
        self._modules = [module for _, module in hooked]
        self._compiled = compiled = CompiledRows(named)
        for name, module in hooked:
            at = (compiled.rows, compiled.slots[name])
            hook = CallHook(self._forward, name, module is self.model, *at)
            self._last[name] = hook.own
            self._handles.append(module.register_forward_hook(hook, with_kwargs=True))
        if "" not in scripted:
            before = BatchHook(self._before)
            self._handles.append(
                self.model.register_forward_pre_hook(before, with_kwargs=True, prepend=True)
            )
        self._backward.attach(self.model, self._handles, self._step_boundary)

    @shortened
    def detach(self) -> None:
        """Take the hooks away; raises if numbers that were still on a device are bad."""
        try:
            if self._handles and not self._verdict.raised:
                self._step_boundary()
                self._records.settle(wait=True)
                self._backward.settle()
                self._recomputed.settle(wait=True)
                self._verdict.raise_pending()
                self._say_what_did_not_run()
        except NumericsError:
            self._remove("stopped")
            raise
        self._remove("stopped" if self._verdict.raised else "finished")

    def _remove(self, ended: str) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._given = ()
        if self._records.flight is not None:
            self._records.flight.close(ended)
            self._records.flight = None

    # -- what users may read --------------------------------------------------------------------

    @property
    def first_bad(self) -> FirstBad | None:
        """What went bad first, once something has."""
        return self._verdict.first_bad

    @property
    def batch(self) -> int:
        """The number of the batch that runs or comes next."""
        return self._records.batch

    @property
    def frames(self) -> list[str]:
        """The last frames as text."""
        return [frame_text(frame) for frame in self._records.forward]

    @property
    def discarded_batches(self) -> int:
        """How many batches' gradients held NaN or Inf and were never applied, as by GradScaler."""
        return self._backward.discarded

    @property
    def differing_recomputations(self) -> int:
        """How many calls gave something else when a checkpoint computed them again."""
        return self._recomputed.differing

    def begin_batch(self) -> None:
        """Begin the next batch, for training that calls parts of the model only.

        Calls of the model itself count by themselves; after the first one this does nothing.
        """
        began, self._told = self._told, True
        if self._model_called:
            return
        if began or self._records.made != self._verdict.opened_at:
            self._batch_ends(self.model)
        self._open((), {})

    def count_anew(self) -> None:
        """Number the next batch 0, as after calls that only try out whether the model runs."""
        self._records.settle(wait=True)
        self._verdict.opened_at = self._records.made
        self._records.batch = 0

    @shortened
    def agree(self) -> None:
        """Raise on all ranks if numbers of any went bad; all ranks have to call it."""
        self._records.settle()
        self._verdict.agree()

    def check_before_saving(self) -> FirstBad | None:
        """Return what is bad of weights and buffers now, so that no checkpoint of it is written."""
        self._unused.detach()
        found = bad_to_save(self.model, self._records.scans, self.batch, self._last_call)
        return None if found is None else replace(found, rank=self._ranks.rank)

    def _last_call(self, name: str) -> Call | Frame | None:
        return self._last.get(name, {}).get("call")

    # -- hooks ----------------------------------------------------------------------------------

    def _before(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Begin a batch, before the model itself is called."""
        if _graph_task() != -1:
            return
        over = self._calls.begin()
        if over is None:  # the model calls itself
            return
        self._records.batch += over
        self._model_called = True
        self._given = ((args, kwargs),)
        self._ranks.batch_begins(self.model)
        self._open(args, kwargs)

    def _open(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        records = self._records
        self._verdict.opened_at = records.made
        self._backward.batch_begins()
        records.open_batch()
        records.settle()
        self._recomputed.settle()
        at = records.batch
        self._backward.batch = at
        self._watch(at % self._every == 0 or at in self._trace)
        stops = self.first_bad is not None and not self._verdict.reports
        self._slowly = stops or at in self._trace
        if not self._watching:
            return
        if records.flight is not None:
            records.flight.begin_batch(at)
        if not self._backward.steps:
            self._weights.epoch = -1 - at
        self._weights.refresh(self._modules)
        cells: list[Cell] = []
        records.scans.cells(CellKind.INPUT, inputs_of(args, kwargs), cells)
        frame = Frame(0, at, "", type(self.model).__name__, cells, Phase.BATCH)
        self._verdict.batch_begins(frame, 4 * self._every)

    def _forward(
        self,
        name: str,
        own: dict[str, Any],
        is_root: bool,
        module: torch.nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        output: Any,
    ) -> None:
        if _graph_task() != -1:  # in a backward pass: a checkpoint computes it again
            if self._watching and "call" in own:
                self._recomputed.take(own["call"], self._records.scans, args, kwargs, output)
            return
        records = self._records
        self._compiled.ran.add(name)  # type: ignore[union-attr]
        if self._watching:
            weights = self._weights.pairs(module, own) if module._parameters else _NO_WEIGHTS
            pairs: list[Any] = []
            told = records.scans.calls.call(args, kwargs, output, pairs)
            if told < 0 or told & 1 or weights is None or self._slowly:
                self._look(name, own, module, args, kwargs, output)
            else:
                own["call"] = records.call(name, type(module).__name__, weights, pairs, told >> 1)
        if is_root:
            self._backward.listen_to(output)
            if self._calls.end():
                self._batch_ends(module)

    def _look(
        self,
        name: str,
        own: dict[str, Any],
        module: torch.nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        output: Any,
    ) -> None:
        """Make a frame of a call that the native walk left to us, or that is judged or printed."""
        records = self._records
        cells: list[Cell] = []
        self._weights.cells(module, own, cells)
        inputs, outputs = inputs_of(args, kwargs), outputs_of(output)
        learn_opaque((*args, *kwargs.values(), output), records.scans.calls.opaque)
        records.scans.cells(CellKind.INPUT, inputs, cells)
        records.scans.cells(CellKind.OUTPUT, outputs, cells)
        self._verdict.given = (*self._given, (args, kwargs))
        try:
            frame = records.frame(name, type(module).__name__, cells, inputs + outputs)
        finally:
            self._verdict.given = ()
        own["call"] = frame
        if frame.batch in self._trace:
            self._verdict.print(frame_text(frame))
        elif self.first_bad is not None and not self._verdict.reports:
            self._verdict.stop(self.first_bad)

    def _batch_ends(self, module: torch.nn.Module) -> None:
        records = self._records
        self._given = ()
        self._backward.batch = records.batch
        records.batch += 1
        self._backward.attach_late(self._handles)
        records.settle()
        if torch.is_grad_enabled() and module.training and self._ranks.several():
            self._verdict.agree()
        if self._abort_after is not None and records.batch > self._abort_after:
            raise NumericsError(
                f"{type(self).__name__}: aborting after {records.batch} batches due to"
                f" `{self._abort_argument}={self._abort_after}` arg"
            )

    def _step_boundary(self) -> None:
        """Look at what compiled code has recorded, before weights are written or at the end."""
        self._recomputed.settle()
        if self._compiled is None:
            return
        records = self._records
        collected = self._compiled.collect()
        for name, class_name, cells in collected:
            records.frame(name, class_name, cells, [])
        ran = self._backward.took_gradients() or bool(collected)
        if ran and not self._model_called and not self._told:
            records.batch += 1  # the model itself was never called but in compiled code
            records.open_batch()
            self._backward.batch = records.batch

    def _watch(self, watching: bool) -> None:
        self._watching = self._backward.watching = watching

    def _message(self, found: FirstBad) -> str:
        return f"{self._verdict.said(found)} ({_STOPPED})"

    def _say_what_did_not_run(self) -> None:
        assert self._compiled is not None
        said = self._compiled.unheard(self.model, self._backward.heard, called=self._records.called)
        if said is not None:
            log.warning(said)
