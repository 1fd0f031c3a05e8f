"""What an agent gets over the Model Context Protocol, from a client that talks to a real server."""

import asyncio
import importlib.util
import json
import os
import sys
from pathlib import Path

import pytest

if importlib.util.find_spec("mcp") is None:  # each worker collects all tests: 0.8 s of import
    pytest.skip("the extra [mcp] is not installed", allow_module_level=True)


def asked(*calls: tuple[str, dict[str, object]]) -> list[tuple[bool, str]]:
    """Return whether a tool failed, and its text, for each call of one server."""
    from mcp import ClientSession
    from mcp.client.stdio import StdioServerParameters, stdio_client

    async def ask() -> list[tuple[bool, str]]:
        words = ["-P", "-m", "postmortem.integrations.mcp_server"]
        server = StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))
        async with stdio_client(server) as streams, ClientSession(*streams) as session:
            await session.initialize()
            answers = [await session.call_tool(*call) for call in calls]
            return [(bool(one.is_error), one.content[0].text) for one in answers]

    return asyncio.run(ask())


def test_the_evidence_of_a_job(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text("[rank0]: step 1\n[rank1]: KeyError: 'lr'\n")
    ((failed, text),) = asked(("explain", {"paths": [str(tmp_path)]}))
    assert not failed
    report = json.loads(text)
    assert (report["kind"], report["outcome"]) == ("triage", "failed")


def test_after_what_cannot_be_read_the_next_is_answered(tmp_path: Path) -> None:
    unread, option, rule = asked(
        ("core", {"path": str(tmp_path / "none")}),
        ("strace", {"path": "--no-redact"}),  # a path is never an option
        ("rule", {"name": "killed_for_memory"}),
    )
    assert unread[0]
    assert "none" in unread[1]
    assert option[0]
    assert "no-redact" in option[1]
    assert not rule[0]
    assert "memory" in rule[1]
