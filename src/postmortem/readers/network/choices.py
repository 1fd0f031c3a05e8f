"""Which interface gloo and NCCL will take, as their own code chooses.

PyTorch's gloo takes GLOO_SOCKET_IFNAME (its first name), else the address of the host's own name if
it can be bound, else the loopback. NCCL takes what NCCL_SOCKET_IFNAME lets pass (prefixes;
``=`` exact, ``^`` none of these), else ib*, then any but docker* and lo, then docker*, then lo.
"""

import ipaddress
from collections.abc import Mapping

from postmortem.facts.net import Choice, Interface, Lookup

_GLOO = "GLOO_SOCKET_IFNAME"
_NCCL = "NCCL_SOCKET_IFNAME"


def choices(
    env: Mapping[str, str], interfaces: tuple[Interface, ...], own: Lookup
) -> tuple[Choice, ...]:
    """Return what gloo and NCCL would take here; `own` is the look-up of the host's own name."""
    return (_gloo(env.get(_GLOO) or None, interfaces, own), _nccl(env.get(_NCCL), interfaces))


def _gloo(value: str | None, interfaces: tuple[Interface, ...], own: Lookup) -> Choice:
    if value is not None:
        name = value.split(",")[0].strip()
        return _of_name("gloo", _GLOO, value, name, interfaces)
    for address in own.addresses:
        owner = next((one.name for one in interfaces if address in one.addresses), None)
        if is_loopback(address):
            return Choice("gloo", _GLOO, None, owner or "lo", address, "loopback")
        if owner is not None:
            return Choice("gloo", _GLOO, None, owner, address)
    fault = "unresolved" if own.addresses or own.error else "loopback"
    return Choice("gloo", _GLOO, None, "lo", "127.0.0.1", fault)


def _of_name(
    library: str, variable: str, value: str, name: str, interfaces: tuple[Interface, ...]
) -> Choice:
    one = next((one for one in interfaces if one.name == name), None)
    if one is None:
        return Choice(library, variable, value, name, None, "absent")
    address = one.addresses[0] if one.addresses else None
    fault = None
    if not one.up:
        fault = "down"
    elif address is None:
        fault = "no_address"
    elif one.loopback:
        fault = "loopback"
    return Choice(library, variable, value, name, address, fault)


def _nccl(value: str | None, interfaces: tuple[Interface, ...]) -> Choice:
    if not value:
        usable = [one for one in interfaces if one.up and one.addresses]
        for wanted in (_is_fabric, _is_plain, _is_docker, _is_any):
            for one in usable:
                if wanted(one):
                    fault = "loopback" if one.loopback else None
                    return Choice("NCCL", _NCCL, None, one.name, one.addresses[0], fault)
        return Choice("NCCL", _NCCL, None, fault="no_address")
    excluded = value.startswith("^")
    rest = value.removeprefix("^")
    exact = rest.startswith("=")
    names = [name.strip() for name in rest.removeprefix("=").split(",") if name.strip()]
    matching = [one for one in interfaces if _matches(one.name, names, exact) != excluded]
    for one in matching:
        if one.up and one.addresses:
            fault = "loopback" if one.loopback else None
            return Choice("NCCL", _NCCL, value, one.name, one.addresses[0], fault)
    if not matching:
        return Choice("NCCL", _NCCL, value, None, None, "absent")
    one = matching[0]
    return Choice("NCCL", _NCCL, value, one.name, None, "no_address" if one.up else "down")


def _matches(name: str, wanted: list[str], exact: bool) -> bool:
    return any(name == one if exact else name.startswith(one) for one in wanted)


def _is_fabric(one: Interface) -> bool:
    return one.name.startswith("ib")


def _is_plain(one: Interface) -> bool:
    return not one.loopback and not _is_docker(one)


def _is_docker(one: Interface) -> bool:
    return one.name.startswith("docker")


def _is_any(one: Interface) -> bool:
    return True


def is_loopback(address: str) -> bool:
    """Return whether an address is that of a loopback; text that is no address is none."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
