"""How things are installed on each distribution, and who has its debug symbols."""

from postmortem.facts.machine import Machine

_DEBIAN, _FEDORA, _ALPINE, _SUSE, _ARCH = "apt-get", "dnf", "apk", "zypper", "pacman"
_FAMILIES = {
    "debian": _DEBIAN,
    "ubuntu": _DEBIAN,
    "fedora": _FEDORA,
    "rhel": _FEDORA,
    "centos": _FEDORA,
    "amzn": _FEDORA,
    "alpine": _ALPINE,
    "suse": _SUSE,
    "opensuse": _SUSE,
    "arch": _ARCH,
}
_INSTALL = {
    _DEBIAN: "apt-get install {}",
    _FEDORA: "dnf install {}",
    _ALPINE: "apk add {}",
    _SUSE: "zypper install {}",
    _ARCH: "pacman -S {}",
}
LIBC_SYMBOLS = {
    _DEBIAN: "apt-get install libc6-dbg",
    _FEDORA: "dnf debuginfo-install glibc",
    _ALPINE: "apk add musl-dbg",
    _SUSE: "zypper install glibc-debuginfo",
}
_DEBUGINFOD = {
    "debian": "https://debuginfod.debian.net",
    "ubuntu": "https://debuginfod.ubuntu.com",
    "fedora": "https://debuginfod.fedoraproject.org",
    "arch": "https://debuginfod.archlinux.org",
    "opensuse": "https://debuginfod.opensuse.org",
}


def install(machine: Machine, package: str) -> str:
    """Return the command that installs a package on this distribution."""
    command = _INSTALL.get(family(machine) or "", "install the package {}").format(package)
    return command if machine.root or command.startswith("install") else f"sudo {command}"


def family(machine: Machine) -> str | None:
    names = (machine.distribution, *machine.distribution_like)
    bare = (name.split("-", 1)[0] for name in names)
    return next((_FAMILIES[name] for name in bare if name in _FAMILIES), None)


def symbol_server(machine: Machine) -> str:
    names = (machine.distribution, *machine.distribution_like)
    own = (_DEBUGINFOD[name] for name in names if name in _DEBUGINFOD)
    return next(own, "https://debuginfod.elfutils.org")
