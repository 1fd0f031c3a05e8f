"""What comes over a connection: only what it shall be, and never an exception of another kind."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postmortem.facts.net import Interface, Lookup, Met, Node, Probe
from postmortem.net import wire
from postmortem.readers.network.choices import choices
from postmortem.readers.network.interfaces import read_fabrics

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)
ETH = Interface("eth0", True, False, 1500, ("10.0.0.1",), 10_000)
LO = Interface("lo", True, True, 65_536, ("127.0.0.1",))
OWN = Lookup("h0", ("10.0.0.1",), "/etc/hosts:2")
PROBE = Probe(1, 2, "gloo", Met.LARGE_IN, "10.0.0.1", "10.0.0.2", 4711, largest=1200)


def there_and_back(value: object, kind: type) -> object:
    return wire.decode(kind, json.loads(wire.encoded({"it": value}))["it"])


def test_records_come_back_as_they_were() -> None:
    node = Node(0, "h0", 1, (ETH, LO), OWN, None, choices({}, (ETH, LO), OWN))
    assert there_and_back(node, Node) == node
    assert there_and_back(PROBE, Probe) == PROBE


@given(JSON)
def test_rubbish_is_an_error_of_the_wire(value: object) -> None:
    for kind in (Node, Probe, Lookup):
        with pytest.raises(wire.WireError):
            wire.decode(kind, value)


@given(st.sampled_from(["source", "met", "port", "largest", "way"]), JSON)
def test_one_wrong_field(name: str, value: object) -> None:
    row = {**json.loads(wire.encoded({"it": PROBE}))["it"], name: value}
    try:
        found = wire.decode(Probe, row)
    except wire.WireError:
        return
    assert isinstance(getattr(found, name), type(value))


def test_more_fields_than_there_are() -> None:
    row = {**json.loads(wire.encoded({"it": PROBE}))["it"], "__class__": "x"}
    with pytest.raises(wire.WireError):
        wire.decode(Probe, row)


def test_a_number_that_no_float_holds() -> None:
    with pytest.raises(wire.WireError):
        wire.decode(float, 10**400)


def test_proofs() -> None:
    claim = wire.proof("secret", "nonce", "member")
    assert wire.proves("secret", "nonce", "member", claim)
    for token, nonce, who in (
        ("other", "nonce", "member"),
        ("secret", "other", "member"),
        ("secret", "nonce", "coordinator"),
    ):
        assert not wire.proves(token, nonce, who, claim)
    for rubbish in (None, 1, "", "é", [claim]):
        assert not wire.proves("secret", "nonce", "member", rubbish)


DOWN = Interface("ib0", False, False, 2044, ("10.9.0.1",))
DOCKER = Interface("docker0", True, False, 1500, ("172.17.0.1",))
ALL = (LO, DOCKER, ETH, DOWN)


@pytest.mark.parametrize(
    ("value", "interface", "fault"),
    [
        (None, "eth0", None),
        ("eth", "eth0", None),
        ("=eth", None, "absent"),
        ("=eth0", "eth0", None),
        ("^lo,docker", "eth0", None),
        ("ib", "ib0", "down"),
        ("enp", None, "absent"),
        ("lo", "lo", "loopback"),
        ("^eth,docker,ib", "lo", "loopback"),
    ],
)
def test_what_nccl_takes(value: str | None, interface: str | None, fault: str | None) -> None:
    env = {} if value is None else {"NCCL_SOCKET_IFNAME": value}
    nccl = choices(env, ALL, OWN)[1]
    assert (nccl.interface, nccl.fault) == (interface, fault)


@pytest.mark.parametrize(
    ("value", "own", "interface", "fault"),
    [
        (None, ("10.0.0.1",), "eth0", None),
        (None, ("127.0.1.1",), "lo", "loopback"),
        (None, (), "lo", "unresolved"),
        (None, ("10.5.5.5",), "lo", "unresolved"),
        ("eth0", ("127.0.1.1",), "eth0", None),
        ("eth", ("10.0.0.1",), "eth", "absent"),
        ("ib0", ("10.0.0.1",), "ib0", "down"),
    ],
)
def test_what_gloo_takes(
    value: str | None, own: tuple[str, ...], interface: str, fault: str | None
) -> None:
    env = {} if value is None else {"GLOO_SOCKET_IFNAME": value}
    error = None if own else "Name or service not known"
    gloo = choices(env, ALL, Lookup("h0", own, error=error))[0]
    assert (gloo.interface, gloo.fault) == (interface, fault)


def test_ports_of_infiniband(tmp_path: Path) -> None:
    for device, state in (("mlx5_0", "4: ACTIVE"), ("mlx5_1", "1: DOWN")):
        folder = tmp_path / device / "ports" / "1"
        folder.mkdir(parents=True)
        (folder / "state").write_text(state + "\n")
        (folder / "link_layer").write_text("InfiniBand\n")
    (tmp_path / "mlx5_2").mkdir()
    rows = [(one.device, one.state) for one in read_fabrics(tmp_path)]
    assert rows == [("mlx5_0", "ACTIVE"), ("mlx5_1", "DOWN")]
    assert read_fabrics(tmp_path / "nothing") == ()
