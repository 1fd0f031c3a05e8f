"""What engines say of nodes that have no report, each of its own."""

import asyncio
from pathlib import Path

import pytest

from builders.commands import script
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
