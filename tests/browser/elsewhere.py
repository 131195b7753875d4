"""Another site on this machine, which remembers what it was asked for."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlunsplit


@contextmanager
def elsewhere() -> Iterator[tuple[str, list[str]]]:
    """The address of a site whose every page is blank, and the paths that were asked of it."""
    requests: list[str] = []

    class Blank(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(self.path)
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Blank) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        yield urlunsplit(("http", f"127.0.0.1:{site.server_port}", "", "", "")), requests
        site.shutdown()
