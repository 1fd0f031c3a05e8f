"""What engines say of nodes that have no report, each of its own."""

import asyncio
from pathlib import Path

import pytest

from builders.commands import script
from postmortem.fleet.commands import run
from postmortem.fleet.engines import Engine, Said, ask

_CLUSH = """
echo "good: ."
printf 'good: %s\\n' "$(printf '{}\\n0\\n' | base64)"
echo "locked: root@locked: Permission denied (publickey,password)." >&2
echo "clush: locked: exited with exit code 255" >&2
echo "nowhere: ssh: Could not resolve hostname nowhere: Name or service not known" >&2
echo "clush: nowhere: exited with exit code 255" >&2
exit 255
"""


def test_clush_says_of_each_node_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path / "clush", _CLUSH)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    nodes = ("good", "locked", "nowhere", "mute")

    async def heard() -> dict[str, Said]:
        engine = Engine("clush", nodes, seconds=30)
        return {one.node: one async for one in ask(engine, {node: ["true"] for node in nodes})}

    said = asyncio.run(heard())
    assert (said["good"].out, said["good"].status) == (b"{}", 0)
    assert said["locked"].error.endswith("Permission denied (publickey,password).")
    assert "resolve hostname nowhere" in said["nowhere"].error
    assert said["mute"].out == b""


@pytest.mark.parametrize("name", ["clush", "ssh"])
def test_net_without_postmortem_on_the_nodes_is_silence(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """clush ends with 0 whatever became of its command, unless it is told not to."""
    words = f"""
case "$*" in *'-w n0'*|*'-- n0'*) node=n0 ;; *) node=n1 ;; esac
echo "{"$node: " if name == "clush" else ""}timeout: failed to run command" >&2
[ {name} = clush ] && echo "clush: $node: exited with exit code 127" >&2
case {name}$1 in clush-N) exit 0 ;; esac
exit 127
"""
    script(tmp_path / name, words)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    seen, _ = run(Engine(name, ("n0", "n1"), seconds=30), "net", [], None)
    assert seen.part.answered == ()
    (alike,) = seen.part.silent_alike
    assert [one.node for one in alike] == ["n0", "n1"]
    assert alike[0].why.endswith("failed to run command")


def test_of_net_the_first_node_has_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path / "ssh", "exit 0\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    seen, _ = run(Engine("ssh", ("n0", "n1"), seconds=30), "net", [], None)
    assert seen.part.answered == ("n1",)
    assert [one.node for one in seen.part.silent] == ["n0"]
