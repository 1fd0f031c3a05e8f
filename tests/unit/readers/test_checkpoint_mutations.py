"""The fuzz targets of the readers of checkpoints, over their seeds and a few mutations of each."""

import random
from pathlib import Path

import pytest

from fuzz import fuzz_formats
from postmortem.readers.checkpoint.scanning import scan_checkpoint

_EACH = 40


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("seeds")
    fuzz_formats.write_seeds(folder)
    return folder


@pytest.mark.filterwarnings("ignore")  # PyTorch's, on how the seeds are written
@pytest.mark.parametrize("kind", list(fuzz_formats.FORMATS))
def test_any_bytes_end_in_a_report_or_an_error(kind: str, seeds: Path, tmp_path: Path) -> None:
    contents = [seed.read_bytes() for seed in sorted((seeds / kind).iterdir())]
    if not contents:
        pytest.skip("its seeds need NumPy or PyTorch")
    source = random.Random(7)
    for content in contents:
        assert scan_checkpoint([str(fuzz_formats.FORMATS[kind](tmp_path, content))]).sources
        for _ in range(_EACH):
            fuzz_formats.check(tmp_path, kind, fuzz_formats.mutated(content, source))
