"""A small API server of Kubernetes for the real kubectl: pods in which commands run here.

It answers what ``kubectl exec`` asks: the kinds there are, the pod, and the command, by WebSocket
(v5.channel.k8s.io, kubectl 1.31 and later): the first byte of a frame is the channel, 1 standard
output, 2 standard error, 3 the status at the end. No cluster and no container is behind it.
"""

import base64
import contextlib
import hashlib
import http.server
import json
import os
import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

_MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""RFC 6455, section 1.3."""
_RESOURCES = {
    "kind": "APIResourceList",
    "groupVersion": "v1",
    "resources": [
        {"name": "pods", "singularName": "pod", "namespaced": True, "kind": "Pod", "verbs": ["get"]}
    ],
}
_KINDS: dict[str, object] = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
    "/api/v1": _RESOURCES,
}

Run = Callable[[str, Sequence[str]], Sequence[str]]
"""From a pod's name and a command to what is run here."""


@contextlib.contextmanager
def cluster(folder: Path, pods: Sequence[str], run: Run) -> Iterator[Path]:
    """Serve pods until the end; yields the KUBECONFIG that leads there."""

    class Handler(_Handler):
        here = frozenset(pods)
        change = staticmethod(run)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    config = folder / "kubeconfig"
    context = {"cluster": "c", "user": "u", "namespace": "default"}
    where = {"server": f"http://127.0.0.1:{server.server_port}"}
    config.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "x",
                "clusters": [{"name": "c", "cluster": where}],
                "users": [{"name": "u", "user": {}}],
                "contexts": [{"name": "x", "context": context}],
            }
        )
    )
    try:
        yield config
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    here: frozenset[str]
    change: Run

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        parts = url.path.split("/")
        pod = parts[6] if url.path.startswith("/api/v1/namespaces/default/pods/") else None
        if url.path in _KINDS:
            self._answer(200, _KINDS[url.path])
        elif pod is None or pod not in self.here:
            message = f'pods "{pod}" not found'
            self._answer(404, {"kind": "Status", "message": message, "reason": "NotFound"})
        elif parts[7:] == ["exec"]:
            self._exec(pod, parse_qs(url.query)["command"])
        else:
            spec = {"containers": [{"name": "worker"}]}
            kind = {"kind": "Pod", "apiVersion": "v1", "status": {"phase": "Running"}}
            self._answer(
                200, {**kind, "metadata": {"name": pod, "namespace": "default"}, "spec": spec}
            )

    def _answer(self, status: int, document: object) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _exec(self, pod: str, command: Sequence[str]) -> None:
        digest = hashlib.sha1((self.headers["Sec-WebSocket-Key"] + _MAGIC).encode()).digest()
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(digest).decode())
        self.send_header("Sec-WebSocket-Protocol", "v5.channel.k8s.io")
        self.end_headers()
        self.close_connection = True
        with subprocess.Popen(
            self.change(pod, command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        ) as child:
            lock = threading.Lock()
            threads = [
                threading.Thread(target=self._copy, args=(channel, stream, lock))
                for channel, stream in ((1, child.stdout), (2, child.stderr))
            ]
            gone = threading.Thread(target=self._until_gone, args=(child,))
            for thread in (*threads, gone):
                thread.start()
            for thread in threads:
                thread.join()
            with contextlib.suppress(OSError):
                self._frame(3, json.dumps(_status(child.wait())).encode(), lock)
                self.connection.sendall(b"\x88\x02" + struct.pack(">H", 1000))
            gone.join(5)
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)
            gone.join()

    def _until_gone(self, child: subprocess.Popen[bytes]) -> None:
        """End the command with its client."""
        with contextlib.suppress(OSError):
            while self.connection.recv(4096):
                pass
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)

    def _copy(self, channel: int, stream: Any, lock: threading.Lock) -> None:
        with contextlib.suppress(OSError):
            while chunk := os.read(stream.fileno(), 32 << 10):
                self._frame(channel, chunk, lock)

    def _frame(self, channel: int, data: bytes, lock: threading.Lock) -> None:
        payload = bytes([channel]) + data
        size = len(payload)
        head = (
            struct.pack(">BB", 0x82, size) if size < 126 else struct.pack(">BBH", 0x82, 126, size)
        )
        with lock:
            self.connection.sendall(head + payload)


def _status(code: int) -> dict[str, object]:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    causes = [{"reason": "ExitCode", "message": str(code)}]
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code {code}",
        "details": {"causes": causes},
    }
