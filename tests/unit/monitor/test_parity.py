"""Our report beside that of transformers' DebugUnderflowOverflow: same model, same data."""

import contextlib
import copy
import importlib.util
import io
from collections.abc import Callable
from typing import Any

import pytest

import postmortem

torch = pytest.importorskip("torch")
# Imported by the tests that need it: each worker collects this file, and it takes a second.
pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(
        importlib.util.find_spec("transformers") is None, reason="no transformers to compare with"
    ),
]


@pytest.fixture
def theirs() -> Any:
    """transformers' module of what we compare with."""
    return importlib.import_module("transformers.debug_utils")


def gpt2(dtype: Any) -> Any:
    import transformers

    torch.manual_seed(0)
    config = transformers.GPT2Config(n_layer=2, n_embd=32, n_head=2, vocab_size=64, n_positions=32)
    return transformers.GPT2LMHeadModel(config).to(dtype)


def t5(dtype: Any) -> Any:
    import transformers

    torch.manual_seed(0)
    config = transformers.T5Config(
        num_layers=2, d_model=32, d_ff=48, d_kv=16, num_heads=2, vocab_size=64,
        decoder_start_token_id=0, pad_token_id=0,
    )  # fmt: skip
    return transformers.T5ForConditionalGeneration(config).to(dtype)


def output_of(watch: Callable[[Any], object], model: Any, batches: int) -> tuple[str, str]:
    """What is printed while batches run, and the message of what was raised."""
    printed = io.StringIO()
    ids = torch.arange(16).reshape(2, 8)
    said = ""
    with contextlib.redirect_stdout(printed):
        watch(model)
        try:
            for _ in range(batches):
                torch.manual_seed(1)
                model(input_ids=ids, labels=ids)
        except ValueError as error:
            said = str(error)
    return printed.getvalue(), said


def ours_only(line: str) -> bool:
    """Whether a line is of a keyword argument or a key of a container, which theirs leave out."""
    name = line[18:]
    return (name.startswith("input[") and not name[6].isdigit()) or (
        name.startswith(("output[", "output.")) and not name[7:8].isdigit()
    )


def rows(text: str) -> list[str]:
    """Lines that hold something; where theirs say "not a tensor", ours show what is in it."""
    lines = (line.rstrip() for line in text.split("\n") if line.strip())
    return [line for line in lines if "not a tensor" not in line]


@pytest.mark.parametrize("make", [gpt2, t5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_traced_batches_are_the_same_cell_by_cell(
    make: Callable[[Any], Any], dtype: Any, theirs: Any
) -> None:
    model = make(dtype)
    want, want_said = output_of(
        lambda m: theirs.DebugUnderflowOverflow(
            m, trace_batch_nums=[0, 1], abort_after_batch_num=1
        ),
        copy.deepcopy(model),
        3,
    )
    got, got_said = output_of(
        lambda m: postmortem.DebugUnderflowOverflow(
            m, trace_batch_nums=[0, 1], abort_after_batch_num=1
        ),
        copy.deepcopy(model),
        3,
    )
    expected = rows(want)
    assert len(expected) > 100
    assert [line for line in rows(got) if not ours_only(line)] == expected
    assert got_said == want_said
    assert "`abort_after_batch_num=1`" in got_said


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("fault", [float("inf"), float("nan")])
def test_a_report_is_the_same_cell_by_cell(dtype: Any, fault: float, theirs: Any) -> None:
    model = gpt2(dtype)
    with torch.no_grad():
        model.transformer.h[1].mlp.c_fc.bias[3] = fault
    want, want_said = output_of(theirs.DebugUnderflowOverflow, copy.deepcopy(model), 1)
    got, got_said = output_of(postmortem.DebugUnderflowOverflow, copy.deepcopy(model), 1)
    assert "Detected inf/nan during batch_number=0\nLast 21 forward frames:" in want
    ours = [line for line in rows(got[: got.index("\nfirst bad:")]) if not ours_only(line)]
    assert ours == rows(want)
    assert "bias of transformer.h.1.mlp.c_fc (Conv1D)" in got
    assert got_said.startswith(want_said)


@pytest.mark.parametrize("fault", [float("inf"), float("nan"), 1.0])
def test_detect_overflow_says_the_same(
    fault: float, theirs: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    tensor = torch.tensor([1.0, fault])
    want = theirs.detect_overflow(tensor, "after layer_norm")
    said = capsys.readouterr().out
    assert postmortem.detect_overflow(tensor, "after layer_norm") is want
    assert capsys.readouterr().out == said
