"""``postmortem scan`` as a user runs it."""

import json
import math
import os
import subprocess
from pathlib import Path

import pytest

from builders.checkpoints import floats, safetensors
from builders.commands import run_here
from builders.prose import Prose
from builders.schema import validate


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return run_here("scan", *words)


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    path = tmp_path / "clean.safetensors"
    path.write_bytes(safetensors({"layers.0.weight": ("F32", [2, 2], floats(1, 0, -3, 2))}))
    return path


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "bad.safetensors"
    tensors = {
        "layers.0.weight": ("F32", [2, 2], floats(1, 0, -3, 2)),
        "layers.1.weight": ("F32", [2, 2], floats(1, math.nan, math.inf, 2)),
        "all": ("F32", [2], floats(math.nan, math.nan)),
    }
    path.write_bytes(safetensors(tensors))
    return path


def test_a_clean_checkpoint(clean: Path, prose: Prose) -> None:
    done = run("-v", clean)
    assert (done.returncode, done.stderr) == (0, "")
    prose(done.stdout.splitlines()[0])
    assert "layers.0.weight" in done.stdout


def test_a_bad_checkpoint(bad: Path) -> None:
    done = run(bad)
    assert done.returncode == 1
    assert done.stdout.startswith("NaN and Inf in 2 of 3 float tensors: ")
    assert run(bad, "--exit-zero").returncode == 0


def test_several_checkpoints_are_told_apart(tmp_path: Path, prose: Prose) -> None:
    for step in (100, 200, 300):
        folder = tmp_path / "run" / f"step-{step}"
        folder.mkdir(parents=True)
        value = math.nan if step == 200 else 1.0
        (folder / "model.safetensors").write_bytes(
            safetensors({"w": ("F32", [2], floats(value, 2))})
        )
    lines = run("-v", tmp_path / "run").stdout.splitlines()
    text = " ".join(lines[:3])
    series = "last clean: step-100, first bad: step-200, clean again: step-300"
    assert text.startswith(f"NaN in w (1 of 2 values); {series}")
    for step in (100, 200, 300):
        assert sum(f"step-{step}/" in line for line in lines) >= 1
    (found,) = json.loads(run("--json", tmp_path / "run").stdout)["diagnoses"]
    assert str(tmp_path / "run/step-100/model.safetensors") in found["next_steps"][0]
    (tmp_path / "run/step-100/model.safetensors").write_bytes(
        safetensors({"w": ("F32", [2], floats(math.inf, 2))})
    )
    prose(run(tmp_path / "run").stdout.splitlines()[0])


def test_a_file_without_tensors(tmp_path: Path, prose: Prose) -> None:
    path = tmp_path / "none.safetensors"
    path.write_bytes(safetensors({}))
    done = run(path)
    assert done.returncode == 0
    prose(done.stdout.splitlines()[0])


@pytest.mark.torch
def test_a_tensor_without_a_name(tmp_path: Path, prose: Prose) -> None:
    torch = pytest.importorskip("torch")
    path = tmp_path / "bare.pt"
    torch.save(torch.tensor([1.0, math.nan]), path)
    document = json.loads(run(path, "--json").stdout)
    prose(document["verdict"])
    assert document["diagnoses"][0]["evidence"][0]["where"] == str(path)


def test_the_document(bad: Path) -> None:
    done = run(bad, "--json")
    document = json.loads(done.stdout)
    validate(document)
    assert document["kind"] == "scan"
    assert [tensor["name"] for tensor in document["tensors"]] == [
        "all",
        "layers.1.weight",
        "layers.0.weight",
    ]
    worst, mixed, good = document["tensors"]
    assert (worst["nan_count"], worst["abs_max"], worst["first_nonfinite"]) == (2, None, 0)
    assert (mixed["abs_max"], mixed["abs_max_finite"]) == (math.inf, 2.0)
    assert "1e999" in done.stdout
    assert (good["abs_min"], good["abs_max"], good["zero_count"]) == (0.0, 3.0, 1)
    assert document["diagnoses"][0]["id"] == "nonfinite_checkpoint"
    assert document["diagnoses"][0]["role"] == "root"
    assert document["nan_numbers"] == []


def test_numbers_that_are_nan_are_told_apart_from_tensors(tmp_path: Path, prose: Prose) -> None:
    torch = pytest.importorskip("torch")
    numpy = pytest.importorskip("numpy")
    path = tmp_path / "last.pt"
    saved = {
        "model": {"w": torch.ones(3)},
        "loss": math.nan,
        "best": math.inf,
        "history": [{"loss": 1.0}, {"loss": numpy.float32("nan")}, {"loss": numpy.float64(2)}],
        "scaled": numpy.float16("nan"),
        "step": 3,
    }
    torch.save(saved, path)
    done = run("-v", path)
    assert done.returncode == 0
    prose(done.stdout.splitlines()[0])
    assert ": loss, history.1.loss, scaled (" in " ".join(done.stdout.split())
    document = json.loads(run(path, "--json").stdout)
    validate(document)
    assert document["outcome"] == "unknown"
    assert [number["name"] for number in document["nan_numbers"]] == [
        "loss",
        "history.1.loss",
        "scaled",
    ]
    assert {number["file"] for number in document["nan_numbers"]} == {str(path)}
    torch.save(
        {"history": [math.nan] * 2000, "legacy": 1}, path, _use_new_zipfile_serialization=False
    )
    done = run("-v", path)
    assert done.returncode == 0
    names = "history.0, history.1, history.2, history.3, history.4 and at least 995 more"
    assert names in " ".join(done.stdout.split())


def test_markdown_and_several_files(bad: Path, clean: Path) -> None:
    done = run(bad.parent, "--markdown")
    assert done.returncode == 1
    assert "bad.safetensors" in done.stdout
    assert "clean.safetensors" in done.stdout


def test_a_cut_file_is_a_failure_of_its_own(clean: Path, prose: Prose) -> None:
    clean.write_bytes(clean.read_bytes()[:-4])
    done = run(clean)
    assert done.returncode == 1
    prose(*done.stdout.splitlines()[:3])


def test_a_name_that_is_no_utf_8(bad: Path, tmp_path: Path) -> None:
    odd = bad.rename(tmp_path / os.fsdecode(b"b\xff.safetensors"))
    assert run(odd, "--json").returncode == 1


def test_what_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing.pt", Path("/dev/null"), tmp_path):
        done = run(path)
        assert (done.returncode, done.stdout) == (3, "")
        assert done.stderr.startswith(f"postmortem: {path}: ")
        assert "Traceback" not in done.stderr
    assert run().returncode == 2


@pytest.mark.parametrize(
    ("name", "count", "failed"),
    [
        ("attn.causal_mask", 2, False),
        ("callbacks.ModelCheckpoint.kth_value", 1, False),
        ("metrics.loss.min_val", 1, False),
        ("logit_scale", 1, True),
        ("callbacks.ema.weight", 2, True),
    ],
)
def test_inf_may_be_meant(name: str, count: int, failed: bool, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    tensors = {name: ("F32", [count], floats(*[-math.inf] * count)), "w": ("F32", [1], floats(1))}
    path.write_bytes(safetensors(tensors))
    done = run(path, "--json")
    diagnosis = json.loads(done.stdout)["diagnoses"][0]
    wanted = (1, "root", "certain") if failed else (0, "context", "possible")
    assert (done.returncode, diagnosis["role"], diagnosis["confidence"]) == wanted


def test_close_to_the_end_of_the_range(tmp_path: Path) -> None:
    path = tmp_path / "h.safetensors"
    path.write_bytes(safetensors({"w": ("F16", [1], (0x7BFF).to_bytes(2, "little"))}))
    done = run(path, "--json")
    assert done.returncode == 0
    diagnosis = json.loads(done.stdout)["diagnoses"][0]
    assert (diagnosis["id"], diagnosis["role"]) == ("near_overflow", "context")
