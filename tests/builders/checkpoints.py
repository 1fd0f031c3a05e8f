"""Writers of checkpoints that share no code with the readers."""

import json
import struct
from pathlib import Path


def safetensors(tensors: dict[str, tuple[str, list[int], bytes]], **metadata: str) -> bytes:
    """Return a file with tensors given as name: (type, shape, data)."""
    header: dict[str, object] = {"__metadata__": metadata} if metadata else {}
    data = b""
    for name, (dtype, shape, values) in tensors.items():
        end = len(data) + len(values)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), end]}
        data += values
    return with_header(header, data)


def with_header(header: object, data: bytes = b"") -> bytes:
    """Return a safetensors file with whatever header."""
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def floats(*values: float) -> bytes:
    """Return values as float32."""
    return struct.pack(f"<{len(values)}f", *values)


def sharded(folder: Path, shards: dict[str, bytes], names: dict[str, str]) -> Path:
    """Write shards and their index; returns the index."""
    for file, content in shards.items():
        (folder / file).write_bytes(content)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": names}))
    return index
