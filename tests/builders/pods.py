"""An API server with as much of Kubernetes as ``kubectl exec`` asks for; its pods run here.

What kubectl and the server say to each other is WebSocket frames whose first byte is the channel
(v5.channel.k8s.io, Kubernetes 1.30 and later).
"""

import base64
import hashlib
import json
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

Command = Callable[[str, list[str]], Sequence[str]]
_PODS = {"name": "pods", "singularName": "pod", "namespaced": True, "kind": "Pod", "verbs": ["get"]}
_STDOUT, _STDERR, _STATUS = 1, 2, 3


@contextmanager
def api_server(
    folder: Path, namespace: str, pods: Sequence[str], within: Command
) -> Iterator[Path]:
    """Serve pods; yield the configuration for kubectl. `within(pod, words)` is what runs."""
    lists = {
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
        "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": [_PODS]},
    }

    running: list[subprocess.Popen[bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            place = f"/api/v1/namespaces/{namespace}/pods/"
            name, _, action = url.path.removeprefix(place).partition("/")
            if url.path in lists:
                self._answer(200, lists[url.path])
            elif url.path == f"/api/v1/namespaces/{namespace}":
                self._answer(200, {"kind": "Namespace", "apiVersion": "v1"})
            elif not url.path.startswith(place) or name not in pods:
                why = f'pods "{name}" not found'
                self._answer(404, _status("Failure", reason="NotFound", message=why))
            elif action == "exec" and "Sec-WebSocket-Key" in self.headers:
                self._execute(name, parse_qs(url.query)["command"])
            else:
                self._answer(200, _pod(namespace, name))

        def _answer(self, code: int, body: dict[str, Any]) -> None:
            text = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(text)
            self.close_connection = True

        def _execute(self, pod: str, words: list[str]) -> None:
            key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
            self.send_response(101)
            self.send_header("Upgrade", "websocket")
            self.send_header("Connection", "Upgrade")
            accepted = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
            self.send_header("Sec-WebSocket-Accept", accepted)
            self.send_header("Sec-WebSocket-Protocol", "v5.channel.k8s.io")
            self.end_headers()
            self.close_connection = True
            pipe = subprocess.PIPE
            with subprocess.Popen(within(pod, words), stdout=pipe, stderr=pipe) as child:
                running.append(child)
                self._pass_on(child)

        def _pass_on(self, child: subprocess.Popen[bytes]) -> None:
            lock = threading.Lock()

            def send(kind: int, content: bytes) -> None:
                head = bytes([0x80 | kind])
                size = len(content)
                head += bytes([size]) if size < 126 else b"\x7e" + size.to_bytes(2, "big")
                with lock, suppress(OSError):  # kubectl may have ended
                    self.wfile.write(head + content)

            def pump(channel: int, stream: Any) -> None:
                while piece := stream.read1(32_000):
                    send(2, bytes([channel]) + piece)

            pumps = [
                threading.Thread(target=pump, args=(_STDOUT, child.stdout)),
                threading.Thread(target=pump, args=(_STDERR, child.stderr)),
            ]
            for one in pumps:
                one.start()
            for one in pumps:
                one.join()
            send(2, bytes([_STATUS]) + json.dumps(_ending(child.wait())).encode())
            send(8, (1000).to_bytes(2, "big"))

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = False  # they are waited for
        threading.Thread(target=server.serve_forever, daemon=True).start()
        config = folder / "kubeconfig"
        config.write_text(json.dumps(_config(f"http://127.0.0.1:{server.server_port}")))
        try:
            yield config
        finally:
            server.shutdown()
            for child in running:
                child.kill()


def _status(status: str, **more: object) -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": status, **more}


def _ending(code: int) -> dict[str, Any]:
    if code == 0:
        return _status("Success")
    causes = [{"reason": "ExitCode", "message": str(code)}]
    message = f"command terminated with non-zero exit code: {code}"
    details = {"causes": causes}
    return _status("Failure", reason="NonZeroExitCode", message=message, details=details)


def _pod(namespace: str, name: str) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"name": "worker", "image": "training"}]},
        "status": {"phase": "Running"},
    }


def _config(server: str) -> dict[str, Any]:
    return {
        "kind": "Config",
        "apiVersion": "v1",
        "clusters": [{"name": "here", "cluster": {"server": server}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        "users": [{"name": "me", "user": {}}],
        "current-context": "here",
    }
