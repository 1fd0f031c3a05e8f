"""Measures whole training steps under the monitor: bench/monitor.py [--device cuda] [--out FILE].

Small models like GPT-2 and T5 from their configurations (forward, backward, AdamW), bare and
watched, taking turns; CPU time of the process, one thread (on a GPU the time until it has done the
step), medians of the ratios to the bare step of the same round. Ways: our monitor looking at what
Hugging Face's DebugUnderflowOverflow looks at (weights, inputs, outputs), the same with gradients
and a flight file, every tenth batch only, and theirs. Then a compiled model: time, graph breaks.
"""

import argparse
import contextlib
import copy
import io
import json
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from machine import machine
from transformers import GPT2Config, GPT2LMHeadModel, T5Config, T5ForConditionalGeneration
from transformers.debug_utils import DebugUnderflowOverflow

from postmortem import NumericsMonitor, _scan

Step = Callable[[], None]
WAYS = ("bare", "parity", "full", "every 10th", "theirs")


TOKENS = {"vocab_size": 8000, "bos_token_id": 1, "eos_token_id": 1}


def gpt2(dtype: torch.dtype = torch.float32) -> torch.nn.Module:
    """Six layers of 384."""
    config = GPT2Config(n_layer=6, n_embd=384, n_head=6, n_positions=256, **TOKENS)
    return GPT2LMHeadModel(config).to(dtype)


def t5() -> torch.nn.Module:
    """Four and four layers of 384."""
    config = T5Config(
        num_layers=4,
        num_decoder_layers=4,
        d_model=384,
        d_ff=1024,
        num_heads=6,
        vocab_size=8000,
        decoder_start_token_id=0,
        pad_token_id=0,
    )
    return T5ForConditionalGeneration(config)


def step_of(model: torch.nn.Module, batch: int, length: int) -> Step:
    """Return a training step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    ids = torch.randint(0, 8000, (batch, length), device=next(model.parameters()).device)

    def step() -> None:
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


@contextlib.contextmanager
def watched(way: str, model: torch.nn.Module, folder: str) -> Iterator[None]:
    """Put one way's hooks in place, and take them away."""
    if way == "bare":
        yield
        return
    if way == "theirs":
        DebugUnderflowOverflow(model)
        yield
        for module in model.modules():
            module._forward_hooks.clear()
        return
    more: dict[str, Any] = {
        "parity": {"gradients": False},
        "full": {"flight": f"{folder}/"},
        "every 10th": {"every": 10},
    }[way]
    with NumericsMonitor(model, **more):
        yield


def compare(model: torch.nn.Module, batch: int, length: int, rounds: int) -> dict[str, Any]:
    """Milliseconds of the bare step, and the other ways' ratios to it."""
    folder = tempfile.mkdtemp()
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    with contextlib.ExitStack() as stack:
        steps = {}
        for way in WAYS:
            own = copy.deepcopy(model).train()
            stack.enter_context(watched(way, own, folder))
            steps[way] = step_of(own, batch, length)
            steps[way]()
        for _ in range(rounds):
            for way, step in steps.items():
                times[way].append(seconds(step))
    bare = times["bare"]
    ratios = {
        way: round(statistics.median(a / b for a, b in zip(rows, bare, strict=True)), 3)
        for way, rows in times.items()
        if way != "bare"
    }
    best = {w: round(min(rows) / min(bare), 3) for w, rows in times.items() if w != "bare"}
    return {"bare_ms": round(statistics.median(bare) * 1e3, 1), "ratios": ratios, "of_best": best}


def seconds(step: Step) -> float:
    """CPU time of one step; where there is a GPU in use, the time until it has done it."""
    if not torch.cuda.is_initialized():
        began = time.process_time()
        step()
        return time.process_time() - began
    torch.cuda.synchronize()
    began = time.perf_counter()
    step()
    torch.cuda.synchronize()
    return time.perf_counter() - began


class Block(torch.nn.Module):
    """One block of the compiled model."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


def compiled(rounds: int, device: str) -> dict[str, Any]:
    """The compiled training step of four blocks, bare and watched; graph breaks of the latter."""
    times: dict[str, list[float]] = {"bare": [], "watched": []}
    breaks = 0
    with contextlib.ExitStack() as stack:
        for way in times:
            torch._dynamo.reset()
            torch._dynamo.utils.counters.clear()
            model = torch.nn.Sequential(*(Block(256) for _ in range(4))).to(device)
            if way == "watched":
                monitor = stack.enter_context(NumericsMonitor(model, gradients=False))
            optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
            run = torch.compile(model)
            x = torch.randn(256, 256, device=device)

            def step(run: Any = run, x: Any = x, optimizer: Any = optimizer) -> None:
                run(x).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()

            step()
            breaks = sum(torch._dynamo.utils.counters["graph_break"].values())
            # Not in turns: Dynamo would run the bare model's code for the watched one.
            times[way] += [seconds(step) for _ in range(rounds)]
    made = (
        monitor._records.made
    )  # Dynamo may have left out the hooks, and then nothing was measured
    if made != 17 * (rounds + 1):
        raise SystemExit(f"{made} frames of {17 * (rounds + 1)}: the hooks were left out")
    medians = {way: statistics.median(rows) for way, rows in times.items()}
    return {
        "bare_ms": round(medians["bare"] * 1e3, 2),
        "ratio": round(medians["watched"] / medians["bare"], 3),
        "of_best": round(min(times["watched"]) / min(times["bare"]), 3),
        "graph_breaks": breaks,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    _scan.set_threads(1)
    torch.manual_seed(0)
    results: dict[str, Any] = {
        "machine": machine(),
        "threads": 1,
        "device": torch.cuda.get_device_name(0) if options.device == "cuda" else "cpu",
        "torch": torch.__version__,
        "load": os.getloadavg()[0],
        "rounds": options.rounds,
    }
    silent = io.StringIO()
    cases = {
        "gpt2 fp32 2x128": (gpt2(), 2, 128),
        "gpt2 fp32 1x16": (gpt2(), 1, 16),
        "gpt2 bf16 2x64": (gpt2(torch.bfloat16), 2, 64),
        "t5 fp32 2x128": (t5(), 2, 128),
        "t5 fp32 1x16": (t5(), 1, 16),
    }
    for name, (model, batch, length) in cases.items():
        if options.only not in name:
            continue
        with contextlib.redirect_stdout(silent):
            results[name] = compare(model.to(options.device), batch, length, options.rounds)
        print(name, json.dumps(results[name]), flush=True)
    if options.only in "compiled":
        results["compiled"] = compiled(10 * options.rounds, options.device)
        print("compiled", json.dumps(results["compiled"]))
    if options.out:
        options.out.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
