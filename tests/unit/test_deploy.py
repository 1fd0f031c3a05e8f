"""What lies under deploy/ is what its readers take, and calls commands that there are."""

from __future__ import annotations

import argparse
import importlib
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from builders.commands import execute

DEPLOY = Path(__file__).parents[2] / "deploy"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))


def objects() -> Iterator[dict[str, Any]]:
    """Return the objects of all manifests."""
    yaml = pytest.importorskip("yaml")
    for path in MANIFESTS:
        yield from yaml.safe_load_all(path.read_text())


def containers() -> Iterator[dict[str, Any]]:
    """Return the containers of all manifests."""
    for one in objects():
        template = one["spec"].get("template", {"spec": {"containers": []}})
        yield from template["spec"]["containers"]


def understood(words: list[str]) -> None:
    """Have our own parser read a command line, without doing what it says."""
    assert words[0] == "postmortem"
    parser = argparse.ArgumentParser(exit_on_error=False)
    module = importlib.import_module(f"postmortem.cli.{words[1].replace('-', '_')}")
    module.add_arguments(parser)
    parser.parse_args(words[2:])


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_manifests_are_what_kubernetes_takes(path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    validate = pytest.importorskip("kubernetes_validate")
    for one in yaml.safe_load_all(path.read_text()):
        validate.validate(one, validate.latest_version(), strict=True)


def test_what_is_mounted_is_there() -> None:
    """A schema knows nothing of names within one manifest."""
    for one in objects():
        spec = one["spec"].get("template", {}).get("spec", {})
        volumes = {volume["name"] for volume in spec.get("volumes", ())}
        for container in spec.get("containers", ()):
            assert {mount["name"] for mount in container["volumeMounts"]} == volumes


def test_the_socket_has_one_path_in_the_pod_and_on_the_host() -> None:
    (handler,) = (one for one in objects() if one["kind"] == "DaemonSet")
    spec = handler["spec"]["template"]["spec"]
    hosts = {one["name"]: one["hostPath"]["path"] for one in spec["volumes"]}
    (container,) = spec["containers"]
    for mount in container["volumeMounts"]:
        assert mount["mountPath"] == hosts[mount["name"]]
    (socket,) = (word for word in container["args"] if word.startswith("--socket="))
    assert socket.partition("=")[2].startswith(hosts["socket"] + "/")
    assert spec["hostPID"] is True
    assert container["securityContext"]["privileged"] is True


def test_our_commands_are_understood() -> None:
    for container in containers():
        understood([*container["command"], *container["args"]])
    lines = (DEPLOY / "docker" / "Dockerfile").read_text().splitlines()
    (entry,) = (line for line in lines if line.startswith("ENTRYPOINT "))
    understood([*json.loads(entry.partition(" ")[2]), "true"])
    unit = (DEPLOY / "systemd" / "postmortem-core.service").read_text()
    (start,) = (line for line in unit.splitlines() if line.startswith("ExecStart="))
    words = shlex.split(start.partition("=")[2])
    understood([Path(words[0]).name, *words[1:]])


def test_compose_has_what_its_schema_has() -> None:
    pytest.importorskip("check_jsonschema")
    words = ["--builtin-schema", "vendor.compose-spec", str(DEPLOY / "docker" / "compose.yaml")]
    done = execute([sys.executable, "-m", "check_jsonschema", *words])
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", sorted((DEPLOY / "slurm").iterdir()), ids=lambda path: path.name)
def test_scripts_are_executable_and_read_by_their_shell(path: Path) -> None:
    assert path.stat().st_mode & 0o111
    shell = path.read_text().splitlines()[0].removeprefix("#!")
    done = subprocess.run([shell, "-n", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
