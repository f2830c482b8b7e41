"""A browser's side of web push: its keys, and what it reads of a push."""

from __future__ import annotations

import base64
import json
from typing import Any

import http_ece
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from bullpen.runs.reach.browsers import Browser


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


class SubscribedBrowser:
    """A browser that was subscribed at the service of its vendor."""

    def __init__(self, endpoint: str = "https://push.example.com/send/abc") -> None:
        self.endpoint = endpoint
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._secret = bytes(range(16))
        point = self._key.public_key().public_bytes(
            serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
        )
        self.keys = {"p256dh": _text(point), "auth": _text(self._secret)}

    @property
    def described(self) -> dict[str, Any]:
        """What the page tells the dashboard."""
        return {"endpoint": self.endpoint, "expirationTime": None, "keys": self.keys}

    def of(self, team: str) -> Browser:
        """The subscription as it is kept."""
        return Browser(team, self.endpoint, self.keys["p256dh"], self.keys["auth"])

    def read(self, body: bytes) -> dict[str, Any]:
        """What a push says, which nobody else can read."""
        clear = http_ece.decrypt(
            body, private_key=self._key, auth_secret=self._secret, version="aes128gcm"
        )
        found: dict[str, Any] = json.loads(clear)
        return found
