"""A stand-in for a chat: takes what is posted to it, and writes each message on a line."""

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer


class Chat(BaseHTTPRequestHandler):
    """Answers posts as the incoming webhooks of chats do."""

    def do_POST(self) -> None:
        """Take one message."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        print(f"#team: {json.loads(body)['text']}", flush=True)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing else."""


server = HTTPServer(("127.0.0.1", 0), Chat)
with open(sys.argv[1], "w", encoding="utf-8") as file:
    file.write(f"http://127.0.0.1:{server.server_port}/hook")
server.serve_forever()
