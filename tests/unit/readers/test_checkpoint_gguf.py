"""GGUF files, and the files of programs whose checkpoints are not scanned."""

import struct
import tarfile
from pathlib import Path

import pytest

from builders.prose import Prose
from postmortem.errors import EvidenceError
from postmortem.facts.tensors import ScannedTensor
from postmortem.readers.checkpoint.scanning import CheckpointFacts, scan_checkpoint

Q4_K, Q8_0, Q6_K, BF16, F32 = 12, 8, 14, 30, 0
HALF_NAN, HALF_ONE = b"\x00\x7e", b"\x00\x3c"


def text(word: str) -> bytes:
    return struct.pack("<Q", len(word)) + word.encode()


def gguf(tensors: list[tuple[str, tuple[int, ...], int, bytes]]) -> bytes:
    """Write a file as docs/gguf.md of ggml describes it: numbers of each kind among the keys."""
    alignment = 64
    keys = [
        text("general.architecture") + struct.pack("<I", 8) + text("llama"),
        text("general.alignment") + struct.pack("<II", 4, alignment),
        text("llama.rope.freq_base") + struct.pack("<If", 6, 1e4),
        text("tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("b"),
        text("types") + struct.pack("<IIQ3i", 9, 5, 3, 1, 2, 3),
        text("good") + struct.pack("<I?", 7, True),
    ]
    rows, data = [], b""
    for name, shape, kind, content in tensors:
        data += bytes(-len(data) % alignment)
        sizes = struct.pack(f"<{len(shape)}Q", *shape[::-1])
        rows.append(
            text(name) + struct.pack("<I", len(shape)) + sizes + struct.pack("<IQ", kind, len(data))
        )
        data += content
    head = b"GGUF" + struct.pack("<IQQ", 3, len(rows), len(keys)) + b"".join(keys + rows)
    return head + bytes(-len(head) % alignment) + data


def whole() -> bytes:
    q8 = b"".join(HALF_NAN + bytes(32) if i == 5 else HALF_ONE + bytes(32) for i in range(8))
    q4 = (HALF_ONE + HALF_ONE + b"\xff" * 140) + (HALF_ONE + b"\x00\xfc" + b"\xff" * 140)
    q6 = b"\xff" * 208 + HALF_ONE
    return gguf(
        [
            ("norm", (3,), F32, struct.pack("<3f", 1, -2, float("inf"))),
            ("half", (2, 2), BF16, b"\x80\x3f" * 4),
            ("q8", (8, 32), Q8_0, q8),
            ("q4", (2, 256), Q4_K, q4),
            ("q6", (256,), Q6_K, q6),
            ("newer", (32,), 99, bytes(8)),
        ]
    )


def scanned(path: Path) -> tuple[CheckpointFacts, dict[str, ScannedTensor]]:
    facts = scan_checkpoint([str(path)])
    return facts, {tensor.name: tensor for tensor in facts.tensors}


def test_weights_and_the_scales_of_quantised_ones(tmp_path: Path, prose: Prose) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(whole())
    facts, found = scanned(tmp_path)
    assert sorted(found) == [
        "half",
        "norm",
        "q4 (Q4_K minima)",
        "q4 (Q4_K scales)",
        "q6 (Q6_K scales)",
        "q8 (Q8_0 scales)",
    ]
    assert (found["norm"].first_nonfinite, found["half"].shape) == (2, (2, 2))
    q8 = found["q8 (Q8_0 scales)"]
    assert (q8.shape, q8.nan_count, q8.first_nonfinite, q8.abs_max) == ((8,), 1, 5, 1)
    assert found["q4 (Q4_K minima)"].inf_count == 1
    assert found["q4 (Q4_K scales)"].bad_count == found["q6 (Q6_K scales)"].bad_count == 0
    prose(*[problem.what for problem in facts.problems])
    assert not facts.damaged


@pytest.mark.parametrize(
    ("kind", "values", "before", "after"), [(34, 256, 52, 0), (35, 256, 64, 0), (41, 128, 0, 16)]
)
def test_scales_of_ternary_and_binary_weights(
    tmp_path: Path, kind: int, values: int, before: int, after: int
) -> None:
    path = tmp_path / "model.gguf"
    block = b"\xff" * before + HALF_ONE + b"\xff" * after
    bad = b"\xff" * before + HALF_NAN + b"\xff" * after
    path.write_bytes(gguf([("w", (3, values), kind, block + block + bad)]))
    facts, found = scanned(path)
    assert facts.problems == ()
    (scales,) = found.values()
    assert (scales.numel, scales.first_nonfinite, scales.abs_max) == (3, 2, 1.0)


def test_a_cut_file(tmp_path: Path) -> None:
    path, content = tmp_path / "model.gguf", whole()
    path.write_bytes(content[:-100])
    facts, found = scanned(path)
    assert facts.damaged
    assert "norm" in found
    assert "q6 (Q6_K scales)" not in found
    for length in range(4, 400, 7):
        path.write_bytes(content[:length])
        with pytest.raises(EvidenceError) as refused:
            scanned(path)
        assert str(path) in str(refused.value)


def test_headers_that_lie(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    huge = 1 << 63
    for wrong in (
        gguf([("a", (0, huge), F32, b"")]),
        whole().replace(struct.pack("<II", 4, 64), struct.pack("<II", 4, 0)),
        b"GGUF" + struct.pack("<IQQ", 3, huge, 0),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", huge),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<IIQ", 9, 4, huge),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<I", 77),
        gguf([("a", (1, 1, 1, 1, 1), F32, bytes(4))]),
    ):
        path.write_bytes(wrong)
        with pytest.raises(EvidenceError) as refused:
            scanned(path)
        assert str(path) in str(refused.value)
    path.write_bytes(gguf([("a", (1 << 40, 1 << 40), F32, b""), ("b", (33,), Q8_0, bytes(99))]))
    facts, found = scanned(path)
    assert (facts.damaged, found) == (True, {})
    assert [p.what.partition(" ")[0] for p in facts.problems] == ["it", "33"]
    for version, why in ((7, "version 7"), (3 << 24, "big-endian")):
        path.write_bytes(b"GGUF" + struct.pack("<IQQ", version, 0, 0))
        with pytest.raises(EvidenceError, match=why):
            scanned(path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("weights.h5", b"\x89HDF\r\n\x1a\n" + bytes(8)),
        ("model.ckpt.index", bytes(8) + b"k" + b"\x57\xfb\x80\x8b\x24\x75\x47\xdb"),
        ("model.ckpt.data-00000-of-00001", b"\x01\x02\x03"),
        ("flax_model.msgpack", b"\x81\xa6params"),
    ],
)
def test_files_of_other_programs(tmp_path: Path, name: str, content: bytes, prose: Prose) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(EvidenceError) as caught:
        scanned(path)
    prose(caught.value)
    assert "convert it" in str(caught.value.hint)


_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize 4976698672\n" % (
    b"a" * 64
)


@pytest.mark.parametrize(
    "content",
    [
        _POINTER,
        b"\n<!DOCTYPE html>\n<title>403 Forbidden</title>",
        b"<HTML lang=en>" + b"x" * 9000,
        b"Entry not found",
        b'{"error": "' + "\u00e9".encode() * 9000,
    ],
)
@pytest.mark.parametrize("name", ["a.safetensors", "a.pt", "a.npy", "a.gguf", "blob"])
def test_what_came_in_place_of_a_download(
    tmp_path: Path, name: str, content: bytes, prose: Prose
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(EvidenceError) as caught:
        scan_checkpoint([str(path)])
    prose(caught.value)
    prose(str(caught.value.hint))


def test_a_tar_archive_is_named(tmp_path: Path) -> None:
    path = tmp_path / "model.nemo"
    with tarfile.open(path, "w") as archive:
        archive.addfile(tarfile.TarInfo("model_weights.ckpt"))
    with pytest.raises(EvidenceError, match="tar archive") as caught:
        scanned(path)
    assert "unpack it" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("inside", "why"),
    [
        ("_CHECKPOINT_METADATA", "Orbax"),
        ("default/manifest.ocdbt", "Orbax"),
        ("checkpoint", "TensorFlow"),
    ],
)
def test_folders_of_other_programs(tmp_path: Path, inside: str, why: str) -> None:
    (tmp_path / inside).parent.mkdir(exist_ok=True)
    (tmp_path / inside).write_bytes(b"{}")
    with pytest.raises(EvidenceError, match=why):
        scanned(tmp_path)
