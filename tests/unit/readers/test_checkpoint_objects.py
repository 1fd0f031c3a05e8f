"""Tensors in what a pickle makes of classes of its own: attributes, items, constants."""

from __future__ import annotations

import collections
import math
import warnings
from pathlib import Path
from typing import Any

import pytest

from postmortem.facts.tensors import ScannedTensor
from postmortem.readers.checkpoint.scanning import CheckpointFacts, scan_checkpoint

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


def scanned(folder: Path, value: Any, **words: Any) -> CheckpointFacts:
    path = folder / "model.pt"
    torch.save(value, path, **words)
    return scan_checkpoint([str(path)])


def bad_names(facts: CheckpointFacts) -> list[str]:
    assert not facts.problems
    return [tensor.name for tensor in facts.tensors.bad]


def bad() -> Any:
    values = torch.ones(8)
    values[3] = math.nan
    return values


class Settings(dict[str, Any]):
    """A dict with attributes, as many libraries have one."""


class Ordered(collections.OrderedDict[str, Any]):
    pass


class Rows(list[Any]):
    pass


class Made:
    """Made anew by its class and words, which protocol 2 writes as NEWOBJ_EX."""

    def __new__(cls, *, weight: Any) -> Made:
        made = super().__new__(cls)
        made.weight = weight
        return made

    def __getnewargs_ex__(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (), {"weight": self.weight}

    def __getstate__(self) -> dict[str, Any]:
        return {"step": 1}


def with_attributes(value: Any, **attributes: Any) -> Any:
    for name, attribute in attributes.items():
        setattr(value, name, attribute)
    return value


@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize("kind", [Settings, Ordered, collections.OrderedDict])
def test_dicts_with_attributes_keep_both(tmp_path: Path, kind: Any, is_old: bool) -> None:
    value = with_attributes(kind(weight=bad(), fine=torch.ones(2)), average=bad(), note="x")
    words = {"_use_new_zipfile_serialization": not is_old}
    assert sorted(bad_names(scanned(tmp_path, {"m": value}, **words))) == ["m.average", "m.weight"]


def test_lists_with_attributes_keep_both(tmp_path: Path) -> None:
    value = with_attributes(Rows([torch.ones(2), bad()]), average=bad())
    assert sorted(bad_names(scanned(tmp_path, value))) == ["1", "average"]


def test_many_items_keep_their_names(tmp_path: Path) -> None:
    value = Settings({f"layer{i}": torch.ones(1) for i in range(2500)})  # 1,000 a SETITEMS
    value["last"] = bad()
    facts = scanned(tmp_path, value)
    assert bad_names(facts) == ["last"]
    assert {f"layer{i}" for i in range(2500)} < {tensor.name for tensor in facts.tensors}


@pytest.mark.parametrize("protocol", [2, 4])
def test_words_that_an_object_is_made_with(tmp_path: Path, protocol: int) -> None:
    facts = scanned(tmp_path, Made(weight=bad()), pickle_protocol=protocol)
    assert bad_names(facts) == ["weight"]


def test_attributes_of_tensors_and_parameters(tmp_path: Path) -> None:
    value = {
        "p": with_attributes(torch.nn.Parameter(torch.ones(8)), main_grad=bad(), shared=True),
        "t": with_attributes(torch.ones(8), scale=bad(), note="x"),
    }
    value["t"].itself = value["t"]
    value["same"] = value["p"]
    facts = scanned(tmp_path, value)
    assert sorted(bad_names(facts)) == ["p.main_grad", "t.scale"]
    assert {"p", "t"} < {tensor.name for tensor in facts.tensors}


def test_a_sparse_tensor_with_attributes(tmp_path: Path) -> None:
    value = with_attributes(bad().to_sparse(), average=bad())
    assert sorted(bad_names(scanned(tmp_path, {"s": value}))) == ["s.average", "s.values"]


def test_constants_of_a_frozen_module(tmp_path: Path) -> None:
    module = torch.nn.Linear(2, 4)
    with torch.no_grad():
        module.weight.view(-1)[3] = math.nan
    path = tmp_path / "frozen.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript is deprecated
        torch.jit.freeze(torch.jit.script(module.eval())).save(path)
    facts = scan_checkpoint([str(path)])
    found: dict[str, ScannedTensor] = {tensor.name: tensor for tensor in facts.tensors}
    (name,) = bad_names(facts)
    assert name.startswith("constants.")
    assert (found[name].shape, found[name].first_nonfinite) == ((4, 2), 3)


def test_tensors_of_the_meta_device_are_told(tmp_path: Path) -> None:
    facts = scanned(tmp_path, {"there": torch.ones(2), "lost": torch.empty(3, device="meta")})
    assert [tensor.name for tensor in facts.tensors] == ["there"]
    (problem,) = facts.problems
    assert problem.where.endswith(": lost")
    assert "meta device" in problem.what
    assert not facts.damaged


class Views:
    """A tensor whose place on its storage is nonsense."""

    def __reduce__(self) -> Any:
        rebuild = torch._utils._rebuild_tensor_v2
        storage = torch.ones(4)._typed_storage()
        return rebuild, (storage, "no offset", (4,), (1,), False, {})


def test_a_tensor_without_a_place_is_told(tmp_path: Path) -> None:
    facts = scanned(tmp_path, {"there": torch.ones(2), "odd": Views()})
    assert [tensor.name for tensor in facts.tensors] == ["there"]
    assert facts.damaged
    assert facts.problems[0].where.endswith(": odd")


def test_a_dict_made_of_pairs(tmp_path: Path) -> None:
    class Pairs:
        def __reduce__(self) -> Any:
            return collections.OrderedDict, ([("weight", bad()), ("step", 3)],)

    assert bad_names(scanned(tmp_path, {"m": Pairs()})) == ["m.weight"]
