"""A network of a job of one host that is slow, loses packets, or is cut."""

import ctypes
import os
import shutil
import struct
import subprocess

from postmortem.emulate.fault import CannotEmulate, Fault, Say, Wait
from postmortem.emulate.namespaces import NEW_NET, enter

_NET_ADMIN = 12
_AMBIENT, _RAISE = 47, 2
_CAPABILITY_VERSION_3 = 0x20080522
_QUEUE = ("root", "handle", "1:")
_BURST = 128 << 10
"""Bytes; a packet of the loopback has up to 64 KiB, and a bucket below that lets none pass."""


class Net(Fault):
    """A network namespace with nothing but a loopback of this quality."""

    def __init__(
        self,
        *,
        delay_ms: float | None,
        loss: float | None,
        rate: int | None,
        cut_after: float | None,
        to_port: int | None,
    ) -> None:
        self._delay = delay_ms
        self._loss = loss
        self._rate = rate
        self._cut_after = cut_after
        self._to_port = to_port
        self.acts = cut_after is not None
        self.missed = f"the command ended before its {cut_after} s were over"
        words = [
            f"a delay of {delay_ms:g} ms" if delay_ms else "",
            f"{loss:g} % of packets lost" if loss else "",
            f"{rate} bytes a second" if rate else "",
        ]
        self.happened = ", ".join(word for word in words if word)
        self.variables = {
            name: "lo"
            for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
            if name not in os.environ
        }

    def enter(self) -> None:
        """Make the namespace and all that needs no time; tries what comes later."""
        if not self.happened and self._cut_after is None:
            raise CannotEmulate("name what is wrong with it: --delay, --loss, --rate, --cut-after")
        if self._to_port is not None and (self._cut_after is None or self.happened):
            raise CannotEmulate("--to-port goes with --cut-after, and with nothing else")
        for program in ("ip", "tc"):
            if shutil.which(program) is None:
                raise CannotEmulate(f"there is no {program} on PATH; apt install iproute2")
        enter(NEW_NET, "network namespace")
        _do("ip", "link", "set", "lo", "up")
        if self._delay or self._loss:
            self._queue_netem()
        elif self._rate:
            _queue("tbf", "rate", f"{self._rate}bps", "burst", str(_BURST), "latency", "1s")
        if self._to_port is not None:
            # What is dropped goes to an interface whose other end is down.
            _do("ip", "link", "add", "nowhere", "type", "veth", "peer", "name", "gone")
            _do("ip", "link", "set", "nowhere", "up")
            _queue("htb")
            self._drop("add")
            self._drop("del")

    def act(self, command: int, wait: Wait, say: Say) -> None:
        """Cut it when its time has come."""
        assert self._cut_after is not None
        if not wait(self._cut_after):
            return
        if self._to_port is None:
            _do("ip", "link", "set", "lo", "down")
            say(f"the network was cut after {self._cut_after:g} s")
        else:
            self._drop("add")
            say(f"packets to port {self._to_port} were lost after {self._cut_after:g} s")

    def _queue_netem(self) -> None:
        words = ["delay", f"{self._delay}ms"] if self._delay else []
        words += ["loss", f"{self._loss}%"] if self._loss else []
        words += ["rate", f"{self._rate}bps"] if self._rate else []
        _queue("netem", "limit", "100000", *words)

    def _drop(self, verb: str) -> None:
        for at, kind in enumerate(("ip", "ip6"), start=1):
            front: tuple[str, ...] = ("tc", "filter", verb, "dev", "lo", "parent", "1:")
            protocol = "ipv6" if kind == "ip6" else "ip"
            front += ("protocol", protocol, "prio", str(at))
            if verb == "del":
                _do(*front)
                continue
            match = ("u32", "match", kind, "dport", str(self._to_port), "0xffff")
            _do(*front, *match, "action", "mirred", "egress", "redirect", "dev", "nowhere")


def _queue(kind: str, *words: str) -> None:
    _do("tc", "qdisc", "add", "dev", "lo", *_QUEUE, kind, *words)


def _do(*words: str) -> None:
    """Run ip or tc in our namespace; raises CannotEmulate with its own words."""
    done = subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, preexec_fn=_keep_rights, check=False
    )
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        what = said[0].removeprefix("Error: ") if said else f"exit status {done.returncode}"
        if words[:2] == ("tc", "qdisc"):
            what = f"the kernel has no sch_{words[8]} for us: {what}"
        raise CannotEmulate(f"{' '.join(words[:3])}: {what}")


def _keep_rights() -> None:
    """Let the program have our right in the network namespace (capabilities(7), "ambient")."""
    if os.geteuid() == 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = ctypes.create_string_buffer(struct.pack("<Ii", _CAPABILITY_VERSION_3, 0))
    data = ctypes.create_string_buffer(24)
    libc.capget(header, data)
    sets = list(struct.unpack("<6I", data.raw[:24]))
    sets[2] |= 1 << _NET_ADMIN
    libc.capset(header, ctypes.create_string_buffer(struct.pack("<6I", *sets)))
    libc.prctl(_AMBIENT, _RAISE, _NET_ADMIN, 0, 0)
