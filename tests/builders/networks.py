"""Hosts made of network namespaces, with faults between them that the kernel itself makes."""

import itertools
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from builders.commands import execute

_COUNT = itertools.count()
POSTMORTEM = (sys.executable, "-m", "postmortem")


def why_not() -> str | None:
    """Return why network namespaces cannot be made here."""
    if shutil.which("ip") is None:
        return "there is no ip (iproute2)"
    name = f"pmtry{os.getpid()}"
    done = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if done.returncode:
        return f"no network namespaces here: {done.stderr.strip()}"
    try:
        tried = execute(["ip", "netns", "exec", name, "unshare", "--uts", "--mount", "true"])
        return (
            f"no namespaces for host names here: {tried.stderr.strip()}"
            if tried.returncode
            else None
        )
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True)


class Network:
    """Hosts ``h0``, ``h1``, … around a router (10.77.I.2 each), or at one bridge (10.78.0.I+1)."""

    def __init__(self, folder: Path, count: int, *, bridged: bool = False) -> None:
        self.folder = folder
        self.count = count
        self.bridged = bridged
        self.tag = f"pm{os.getpid() % 100_000}x{next(_COUNT)}"
        self.running: list[subprocess.Popen[str]] = []
        self._batches: dict[str, list[str]] = {}

    def name(self, index: int | str) -> str:
        return f"{self.tag}h{index}" if isinstance(index, int) else f"{self.tag}{index}"

    def address(self, index: int) -> str:
        return f"10.78.0.{index + 1}" if self.bridged else f"10.77.{index}.2"

    def start(self) -> None:
        names = [self.name(index) for index in range(self.count)]
        ip_batch([f"netns add {name}" for name in [self.name("r"), *names]])
        sysctl = ["net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0"]
        for word in sysctl:
            key, _, value = word.partition("=")
            path = "/proc/sys/" + key.replace(".", "/")
            self.sh("r", f"echo {value} > {path}")
        rows = [
            f"link add e0 netns {name} type veth peer name v{index} netns {self.name('r')}"
            for index, name in enumerate(names)
        ]
        ip_batch(rows)
        inside = ["link set dev lo up"]
        if self.bridged:
            inside += ["link add name br0 type bridge", "link set dev br0 up"]
        for index in range(self.count):
            inside.append(f"link set dev v{index} up")
            inside.append(
                f"link set dev v{index} master br0"
                if self.bridged
                else f"addr add 10.77.{index}.1/24 dev v{index}"
            )
        self.ip("r", *inside)
        for index in range(self.count):
            rows = [
                "link set dev lo up",
                f"addr add {self.address(index)}/24 dev e0",
                "link set dev e0 up",
            ]
            if not self.bridged:
                rows.append(f"route add default via 10.77.{index}.1")
            self.ip(index, *rows)
        for index in range(self.count):
            self.wait_for_link(index, "e0")

    def wait_for_link(self, index: int, name: str) -> None:
        """Wait until the kernel says that an interface runs: some time after it was set up."""
        words = ["ip", "-n", self.name(index), "-o", "link", "show", "dev", name]
        for _ in range(200):
            if "state UP" in subprocess.run(words, capture_output=True, text=True).stdout:
                return
            time.sleep(0.02)
        raise AssertionError(f"{name} of host {index} does not come up")

    def stop(self) -> None:
        for child in self.running:
            with suppress(OSError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            for stream in (child.stdout, child.stderr):
                if stream is not None:
                    stream.close()
        names = [self.name(index) for index in range(self.count)] + [self.name("r")]
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)

    def ip(self, where: int | str, *rows: str) -> None:
        ip_batch(list(rows), "-n", self.name(where))

    def sh(self, where: int | str, words: str) -> str:
        """Run a shell command on a host and return what it said."""
        command = ["ip", "netns", "exec", self.name(where), "sh", "-c", words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def drop(self, source: int, target: int, ports: str = "") -> None:
        """Have the router lose all packets of one way, or those to some ports, without a word."""
        match = f" ipproto tcp dport {ports}" if ports else ""
        self.ip(
            "r", f"rule add from {self.address(source)} to {self.address(target)}{match} blackhole"
        )

    def spawn(
        self,
        index: int,
        command: Sequence[str],
        *,
        hosts: str = "",
        env: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[str]:
        """Start a command on a host that has a name and a hosts file of its own."""
        known = "".join(f"{self.address(i)} h{i}\n" for i in range(min(self.count, 8)))
        file = self.folder / f"hosts{index}-{len(self.running)}"
        file.write_text(hosts or f"127.0.0.1 localhost\n{self.address(index)} h{index}\n{known}")
        inner = (
            f"hostname h{index}; mount --bind {shlex.quote(str(file))} /etc/hosts; "
            f"exec {shlex.join(command)}"
        )
        words = ["ip", "netns", "exec", self.name(index)]
        words += ["unshare", "--uts", "--mount", "sh", "-c", inner]
        clean = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("SLURM_", "MASTER_", "NCCL_", "GLOO_"))
        }
        child = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**clean, **(env or {})},
            start_new_session=True,
        )
        self.running.append(child)
        return child

    def meet(
        self,
        *options: str,
        only: Sequence[int] | None = None,
        env: Mapping[int, Mapping[str, str]] | None = None,
        hosts: Mapping[int, str] | None = None,
        master: str | None = None,
        torch: bool = False,
        world: int | None = None,
    ) -> dict[int, subprocess.Popen[str]]:
        """Start ``postmortem net`` on all hosts."""
        started = {}
        for index in range(self.count) if only is None else only:
            words = [*POSTMORTEM, "net", "--nodes", str(world or self.count), "--node", str(index)]
            words += ["--master", master or f"{self.address(0)}:29500", "--token", "secret"]
            words += ["--json", *options, *([] if torch else ["--no-torch"])]
            one = (hosts or {}).get(index, "")
            started[index] = self.spawn(index, words, hosts=one, env=(env or {}).get(index))
        return started

    def listening(self) -> list[str]:
        """Return who listens on any host."""
        return [
            line for index in range(self.count) for line in self.sh(index, "ss -Hltn").splitlines()
        ]


def ended(child: subprocess.Popen[str], seconds: float = 90) -> tuple[int, str, str]:
    """Return exit status, standard output and standard error of a child."""
    out, err = child.communicate(timeout=seconds)
    assert "Traceback" not in err, err
    return child.returncode, out, err


def document(child: subprocess.Popen[str], code: int, seconds: float = 90) -> dict[str, Any]:
    """Return the JSON of a child that ended with this status."""
    from builders.schema import validate

    status, out, err = ended(child, seconds)
    assert status == code, (status, out[-3000:], err[-2000:])
    found: dict[str, Any] = json.loads(out)
    validate(found)
    return found


def ip_batch(rows: list[str], *options: str) -> None:
    done = execute(["ip", *options, "-batch", "-"], input="\n".join(rows))
    assert done.returncode == 0, (rows[:3], done.stderr)


@contextmanager
def network(folder: Path, count: int, *, bridged: bool = False) -> Iterator[Network]:
    """Make a network; it is gone afterwards, with all that ran in it."""
    made = Network(folder, count, bridged=bridged)
    try:
        made.start()
        yield made
    finally:
        made.stop()
