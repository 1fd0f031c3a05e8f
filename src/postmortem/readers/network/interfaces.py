"""Network interfaces and their addresses (getifaddrs(3), sysfs), and InfiniBand's ports."""

import ctypes
import os
import socket
from pathlib import Path

from postmortem.facts.net import Fabric, Interface
from postmortem.readers.live.status import count_or_none, text_or_none

_SYSFS = Path("/sys/class/net")
_FABRICS = Path("/sys/class/infiniband")
_UP, _LOOPBACK, _RUNNING = 0x1, 0x8, 0x40
_MOST = 4096


class _Address(ctypes.Structure):
    pass


_Address._fields_ = [  # struct ifaddrs of glibc and musl
    ("next", ctypes.POINTER(_Address)),
    ("name", ctypes.c_char_p),
    ("flags", ctypes.c_uint),
    ("address", ctypes.c_void_p),
    ("mask", ctypes.c_void_p),
    ("other", ctypes.c_void_p),
    ("data", ctypes.c_void_p),
]


def read_interfaces(sysfs: Path = _SYSFS) -> tuple[Interface, ...]:
    """Return the interfaces of this network namespace in the kernel's order, with addresses.

    Link-local IPv6 addresses are left out: no library of a job takes them.
    """
    flags: dict[str, int] = {}
    addresses: dict[str, list[str]] = {}
    for name, bits, address in _getifaddrs():
        flags[name] = bits
        found = addresses.setdefault(name, [])
        if address is not None and not address.startswith("fe80:"):
            found.append(address)
    return tuple(
        Interface(
            name=name,
            up=bool(bits & _UP and bits & _RUNNING),
            loopback=bool(bits & _LOOPBACK),
            mtu=count_or_none(sysfs / name / "mtu") or 0,
            addresses=tuple(addresses[name]),
            speed_mbit=_speed(sysfs / name),
        )
        for name, bits in flags.items()
    )


def _getifaddrs() -> list[tuple[str, int, str | None]]:
    libc = ctypes.CDLL(None, use_errno=True)
    first = ctypes.POINTER(_Address)()
    if libc.getifaddrs(ctypes.byref(first)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "getifaddrs")
    found: list[tuple[str, int, str | None]] = []
    try:
        entry = first
        while entry and len(found) < _MOST:
            one = entry.contents
            found.append((os.fsdecode(one.name), one.flags, _text(one.address)))
            entry = one.next
    finally:
        libc.freeifaddrs(first)
    return found


def _text(address: int | None) -> str | None:
    """Return a sockaddr as text; None where it is none of IPv4 or IPv6."""
    if not address:
        return None
    family = ctypes.c_uint16.from_address(address).value
    if family == socket.AF_INET:
        return socket.inet_ntop(socket.AF_INET, ctypes.string_at(address + 4, 4))
    if family == socket.AF_INET6:
        return socket.inet_ntop(socket.AF_INET6, ctypes.string_at(address + 8, 16))
    return None


def _speed(folder: Path) -> int | None:
    speed = count_or_none(folder / "speed")
    return speed if speed is not None and 0 < speed < 1 << 24 else None


def read_fabrics(sysfs: Path = _FABRICS) -> tuple[Fabric, ...]:
    """Return the ports of InfiniBand and RoCE devices; none where there are no such devices."""
    found = []
    try:
        devices = sorted(os.listdir(sysfs))[:256]  # noqa: PTH208
    except OSError:
        return ()
    for device in devices:
        ports = sysfs / device / "ports"
        try:
            numbers = sorted(int(name) for name in os.listdir(ports) if name.isdecimal())  # noqa: PTH208
        except OSError:
            continue
        for port in numbers[:64]:
            words = {
                name: (text_or_none(str(ports / str(port) / name)) or "").strip()[:80]
                for name in ("state", "link_layer", "rate")
            }
            state = words["state"].partition(":")[2].strip() or words["state"] or "unknown"
            found.append(Fabric(device, port, state, words["link_layer"], words["rate"]))
    return tuple(found)


def owner_of(interfaces: tuple[Interface, ...], address: str | None) -> str | None:
    """Return the name of the interface that has an address."""
    return next((one.name for one in interfaces if address in one.addresses), None)


def is_ours(interfaces: tuple[Interface, ...], address: str) -> bool:
    """Return whether an address is one of this machine (all of 127.0.0.0/8 is)."""
    return address.startswith("127.") or owner_of(interfaces, address) is not None


def source_for(address: str) -> tuple[str | None, str]:
    """Return our address on the way to another one, and why there is none; sends nothing."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))
            return str(probe.getsockname()[0]), ""
    except OSError as error:
        return None, error.strerror or str(error)
