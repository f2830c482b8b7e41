"""Stands in for a phone and for the ntfy server in front of it: shows notices, and taps Allow.

Usage: phone.py FILE; the file gets the port.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

TRIES = 200


class Phone(BaseHTTPRequestHandler):
    """Gets notices as ntfy does."""

    def do_POST(self) -> None:
        notice = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")
        words, _, links = notice["message"].partition("\n\n")
        print(f"* {notice['title']}\n  {words}", flush=True)
        allow = re.search(r"^Allow: (\S+)$", links, re.MULTILINE)
        if allow:
            threading.Thread(target=tap, args=[allow[1]]).start()

    def log_message(self, *said: object) -> None:
        """Say nothing about requests."""


def tap(link: str) -> None:
    """Open the page of a link, and tap its button."""
    page = opened(link)
    asked = re.sub(r"<[^>]+>", "", page.partition('class="exactly">')[2].partition("</div>")[0])
    print(f"  the page shows: {asked.strip()}", flush=True)
    done = opened(link, urlencode({"choice": "allow"}).encode())
    print(f"  after one tap: {re.findall('<h1>(.*?)</h1>', done)[0]}", flush=True)


def opened(link: str, form: bytes | None = None) -> str:
    """What a page says, as soon as the dashboard is there."""
    for _ in range(TRIES):
        try:
            with urlopen(link, form, timeout=20) as page:  # noqa: S310
                text: str = page.read().decode()
                return text
        except URLError:
            time.sleep(0.1)
    raise SystemExit("The dashboard did not come.")


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Phone)
    Path(sys.argv[1]).write_text(str(server.server_port), "utf-8")
    server.serve_forever()
