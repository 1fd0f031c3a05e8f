"""Where root is to write cores: nobody else may write there, nor put another folder there."""

import os
from pathlib import Path

import pytest

from builders.prose import Prose
from postmortem.errors import EvidenceError
from postmortem.handler.installing import make_folder


def test_a_folder_of_ones_own_is_made(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "cores")
    assert (tmp_path / "a" / "cores").is_dir()


@pytest.mark.parametrize("name", ["shared", "shared/below", "link", "link/below"])
def test_what_others_may_write_to_is_refused(name: str, tmp_path: Path, prose: Prose) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    (tmp_path / "link").symlink_to("shared")
    with pytest.raises(EvidenceError) as refused:
        make_folder(tmp_path / name)
    prose(refused.value)
    assert list((tmp_path / "shared").iterdir()) == []


def test_below_a_folder_such_as_tmp_ones_own_is_safe(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    make_folder(tmp_path / "tmp" / "cores")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_a_link_that_another_user_made_is_refused(tmp_path: Path, prose: Prose) -> None:
    (tmp_path / "cores").mkdir()
    (tmp_path / "link").symlink_to("cores")
    os.chown(tmp_path / "link", 12345, 12345, follow_symlinks=False)
    with pytest.raises(EvidenceError) as refused:
        make_folder(tmp_path / "link")
    prose(refused.value)


@pytest.mark.parametrize("kind", ["file", "pipe"])
def test_what_is_no_folder_is_refused(kind: str, tmp_path: Path, prose: Prose) -> None:
    path = tmp_path / "cores"
    os.mkfifo(path) if kind == "pipe" else path.write_text("")
    with pytest.raises(EvidenceError) as refused:
        make_folder(path)
    prose(refused.value)
