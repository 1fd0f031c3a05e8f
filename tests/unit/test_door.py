"""The socket of a breakpoint: who does not know the token cannot keep others out."""

import socket
import threading
import time
from pathlib import Path

import pytest

from builders.prose import Prose
from postmortem.breakpoints import client, door, wire
from postmortem.breakpoints.place import Place
from postmortem.errors import EvidenceError


def test_a_peer_that_sends_a_byte_now_and_then_does_not_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "_HANDSHAKE_SECONDS", 0.4)
    monkeypatch.setattr("postmortem.breakpoints.runtime.folder", lambda: str(tmp_path))
    opened = door.Door(Place(0, 1, "here", 1), "train.py:3")
    host, _, port = opened.address.rpartition(":")
    sent = 0
    with socket.create_connection((host, int(port)), 20) as link:
        link.settimeout(20)
        wire.receive(link, len(wire.GREETING) + wire.NONCE_BYTES)
        link.setblocking(False)
        try:
            while sent < wire.NONCE_BYTES + wire.PROOF_BYTES - 1:
                link.send(b"x")
                sent += 1
                time.sleep(0.1)
                try:
                    if link.recv(1) == b"":
                        break
                except BlockingIOError:
                    continue
        except OSError:  # closed between two bytes
            pass
    opened.close()
    assert 0 < sent < wire.NONCE_BYTES + wire.PROOF_BYTES - 1
    assert opened.guest is None
    assert list(tmp_path.iterdir()) == []


def test_a_breakpoint_that_sends_a_byte_now_and_then_is_given_up(
    monkeypatch: pytest.MonkeyPatch, prose: Prose
) -> None:
    monkeypatch.setattr(client, "_CONNECT_SECONDS", 0.4)
    over = threading.Event()
    sent: list[int] = []

    def drip(listener: socket.socket) -> None:
        link, _ = listener.accept()
        with link:
            for byte in wire.GREETING + bytes(wire.NONCE_BYTES):
                if over.wait(0.1):
                    return
                try:
                    link.sendall(bytes((byte,)))
                except OSError:
                    return
                sent.append(byte)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, args=(listener,))
        thread.start()
        with pytest.raises(EvidenceError) as refused:
            client.connect(f"127.0.0.1:{listener.getsockname()[1]}", "x" * 16)
        prose(str(refused.value).partition(": ")[2])
        over.set()
        thread.join()
    assert len(sent) < len(wire.GREETING) + wire.NONCE_BYTES


@pytest.mark.parametrize("address", ["node2", "[::1]", "node2:", "node2:70000", "node2:ssh"])
def test_an_address_without_a_port_is_refused_as_that(address: str, prose: Prose) -> None:
    with pytest.raises(EvidenceError) as refused:
        client.choose(address, None, None, 0)
    prose(str(refused.value))
