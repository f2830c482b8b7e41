"""Key pairs, signed claims and credentials files in the formats of NATS.

A seed is a secret: no `repr` shows it, and only the property of a `KeyPair` returns it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import secrets
from collections.abc import Mapping
from enum import Enum
from typing import Any

from bullpen.errors import Invalid, Unavailable

try:
    import nkeys  # type: ignore[import-untyped]
    from nacl.exceptions import CryptoError
    from nacl.signing import VerifyKey
except ImportError as error:
    raise Unavailable(
        f"Keys cannot be created here: {error}.", remedy="Run: pip install 'bullpen[nats]'"
    ) from error

_HEADER = {"typ": "JWT", "alg": "ed25519-nkey"}
_RAW_KEY_BYTES = 32
_CHECKSUM_BYTES = 2
_JWT_TITLE = "NATS USER JWT"
_SEED_TITLE = "USER NKEY SEED"


class Kind(Enum):
    """What a key stands for. The value is the byte that its text begins with."""

    OPERATOR = nkeys.PREFIX_BYTE_OPERATOR
    ACCOUNT = nkeys.PREFIX_BYTE_ACCOUNT
    USER = nkeys.PREFIX_BYTE_USER


class KeyPair:
    """A key that signs. Its `str` is its public half."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        try:
            _checked(seed)
            self._pair = nkeys.from_seed(bytearray(seed.encode("ascii")))
            self.public: str = self._pair.public_key.decode("ascii")
        except (nkeys.NkeysError, ValueError, TypeError):
            # No part of the text may get into an error: it may be a seed with one wrong letter.
            raise Invalid(
                "The text is not the seed of a key.", remedy="Restore the file from a backup."
            ) from None

    @classmethod
    def generate(cls, kind: Kind) -> KeyPair:
        """Return a new key."""
        raw = secrets.token_bytes(_RAW_KEY_BYTES)
        return cls(nkeys.encode_seed(raw, kind.value).decode("ascii"))

    @property
    def seed(self) -> str:
        """Return the secret half."""
        return self._seed

    def sign(self, data: bytes) -> bytes:
        """Return the signature of some bytes."""
        signature: bytes = self._pair.sign(data)
        return signature

    def __repr__(self) -> str:
        return f"KeyPair({self.public})"


def signed(claims: Mapping[str, Any], issuer: KeyPair) -> str:
    """Return claims as a JWT signed by `issuer`; `jti` and `iss` are filled in."""
    body = {**claims, "iss": issuer.public, "jti": ""}
    digest = hashlib.sha256(_json(body)).digest()
    body["jti"] = base64.b32encode(digest).decode("ascii").rstrip("=")
    text = f"{_base64(_json(_HEADER))}.{_base64(_json(body))}"
    return f"{text}.{_base64(issuer.sign(text.encode('ascii')))}"


def claims_of(token: str) -> dict[str, Any]:
    """Return what a JWT says. Raises Invalid unless the key it names as issuer signed it."""
    try:
        header, body, signature = token.strip().split(".")
        claims = json.loads(_unbase64(body))
        if json.loads(_unbase64(header)) != _HEADER or not isinstance(claims, dict):
            raise ValueError
        VerifyKey(_raw_public(str(claims["iss"]))).verify(
            f"{header}.{body}".encode("ascii"), _unbase64(signature)
        )
    except (ValueError, KeyError, RecursionError, CryptoError):
        raise Invalid(
            "The text is not a signed claim: its format or its signature is wrong.",
            remedy="Restore the file from a backup, or mint the key again.",
        ) from None
    return claims


def creds_text(token: str, user: KeyPair) -> str:
    """Return a credentials file: a user's signed claims, and the seed that proves them."""
    return (
        f"-----BEGIN {_JWT_TITLE}-----\n{token}\n------END {_JWT_TITLE}------\n\n"
        "************************* IMPORTANT *************************\n"
        "The seed below is a secret. Who has it is this user.\n\n"
        f"-----BEGIN {_SEED_TITLE}-----\n{user.seed}\n------END {_SEED_TITLE}------\n"
    )


def _raw_public(public: str) -> bytes:
    body = _checked(public)
    if len(body) != _RAW_KEY_BYTES + 1:
        raise ValueError("not a public key")
    return body[1:]


def _checked(text: str) -> bytes:
    """Return the bytes of a key's text if its checksum is right; the library does not check."""
    try:
        data = base64.b32decode(text + "=" * (-len(text) % 8))
    except binascii.Error:
        raise ValueError("not a key") from None
    body, checksum = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
    # The last letter has unused bits: a key has only one valid text.
    is_written_so = base64.b32encode(data).decode().rstrip("=") == text
    if nkeys.crc16_checksum(body) != checksum or not is_written_so:
        raise ValueError("not a key")
    return body


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")


def _unbase64(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
