"""Programs of torch.export: weights as records of their own, and archives within an archive."""

import io
import json
import math
import zipfile
from pathlib import Path
from typing import Any

import pytest

from builders.prose import Prose
from postmortem.readers.checkpoint.scanning import scan_checkpoint

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


class Model(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)
        self.narrow = torch.nn.Parameter(torch.ones(2, 3, dtype=torch.bfloat16).t())
        self.register_buffer("bad", torch.tensor([1.0, math.inf, math.nan]))
        self.constant = torch.ones(2)

    def forward(self, x: Any) -> Any:
        return self.layer(x) + self.bad.sum() + self.constant.sum() + self.narrow.float().sum()


def exported(folder: Path) -> Path:
    path = folder / "model.pt2"
    torch.export.save(torch.export.export(Model(), (torch.ones(2, 4),)), path)
    with zipfile.ZipFile(path) as archive:
        if not any(name.endswith("_weights_config.json") for name in archive.namelist()):
            pytest.skip("this PyTorch writes the form before")
    return path


def changed(path: Path, change: Any) -> Path:
    """Write the archive anew with records changed: `change` gets name and content of each."""
    to = path.with_name("changed.pt2")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(to, "w") as new:
        for name in old.namelist():
            content = change(name, old.read(name))
            if content is not None:
                new.writestr(name, content)
    return to


def test_weights_and_constants_are_scanned(tmp_path: Path) -> None:
    facts = scan_checkpoint([str(exported(tmp_path))])
    assert facts.problems == ()
    assert {t.name: (t.dtype, t.shape) for t in facts.tensors} == {
        "layer.weight": ("float32", (3, 4)),
        "layer.bias": ("float32", (3,)),
        "narrow": ("bfloat16", (3, 2)),
        "bad": ("float32", (3,)),
        "constant": ("float32", (2,)),
    }
    (bad,) = facts.tensors.bad
    assert (bad.name, bad.nan_count, bad.inf_count, bad.first_nonfinite) == ("bad", 1, 1, 1)


def test_a_folder_with_one_is_searched(tmp_path: Path) -> None:
    exported(tmp_path)
    assert len(scan_checkpoint([str(tmp_path)]).tensors.items) == 5


def test_the_form_before_has_archives_in_the_archive(tmp_path: Path) -> None:
    def saved(value: Any) -> bytes:
        stream = io.BytesIO()
        torch.save(value, stream)
        return stream.getvalue()

    path = tmp_path / "old.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("serialized_exported_program.json", "{}")
        archive.writestr("serialized_state_dict.pt", saved({"w": torch.full((3,), math.nan)}))
        archive.writestr("serialized_constants.pt", b"")
    facts = scan_checkpoint([str(path)])
    assert facts.problems == ()
    assert [(t.name, t.nan_count) for t in facts.tensors] == [("w", 3)]


@pytest.mark.parametrize(
    "change",
    [
        lambda n, c: None if n.endswith("weight_0") else c,
        lambda n, c: c[:8] if n.endswith("weight_0") else c,
        lambda n, c: b"{}" if n.endswith("weights_config.json") else c,
        lambda n, c: b"[" if n.endswith("weights_config.json") else c,
        lambda n, c: c.replace(b'"as_int": 4', b'"as_int": -4') if "weights_c" in n else c,
    ],
)
def test_what_is_damaged_is_said(tmp_path: Path, change: Any, prose: Prose) -> None:
    facts = scan_checkpoint([str(changed(exported(tmp_path), change))])
    assert facts.damaged
    prose(*(f"{p.where}: {p.what}" for p in facts.problems))
    assert "constant" in {tensor.name for tensor in facts.tensors}


def test_what_is_of_another_kind_is_left_out(tmp_path: Path, prose: Prose) -> None:
    def other(name: str, content: bytes) -> bytes:
        if not name.endswith("weights_config.json"):
            return content
        config = json.loads(content)
        config["config"]["bad"]["tensor_meta"]["layout"] = 1
        config["config"]["narrow"]["tensor_meta"]["dtype"] = 77
        return json.dumps(config).encode()

    facts = scan_checkpoint([str(changed(exported(tmp_path), other))])
    assert not facts.damaged
    prose(*sorted(p.what for p in facts.problems))
    assert len(facts.tensors.items) == 3
