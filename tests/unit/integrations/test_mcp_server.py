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


def asked(tool: str, **arguments: object) -> tuple[bool, str]:
    """Return whether a tool failed, and its text."""
    from mcp import ClientSession
    from mcp.client.stdio import StdioServerParameters, stdio_client

    async def ask() -> tuple[bool, str]:
        words = ["-P", "-m", "postmortem.integrations.mcp_server"]
        server = StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))
        async with stdio_client(server) as streams, ClientSession(*streams) as session:
            await session.initialize()
            answer = await session.call_tool(tool, arguments)
            return bool(answer.is_error), answer.content[0].text

    return asyncio.run(ask())


def test_the_evidence_of_a_job(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text("[rank0]: step 1\n[rank1]: KeyError: 'lr'\n")
    failed, text = asked("explain", paths=[str(tmp_path)])
    assert not failed
    report = json.loads(text)
    assert (report["kind"], report["outcome"]) == ("triage", "failed")


def test_what_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    failed, text = asked("core", path=str(tmp_path / "none"))
    assert failed
    assert "none" in text


def test_a_path_is_never_an_option() -> None:
    failed, text = asked("strace", path="--no-redact")
    assert failed
    assert "no-redact" in text


def test_a_rule_is_explained() -> None:
    assert "memory" in asked("rule", name="killed_for_memory")[1]
