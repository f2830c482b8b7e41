"""Reads credentials files, which the product only writes."""

from __future__ import annotations

import re

from bullpen.fleet.auth.keys import KeyPair

_SECTION = re.compile(r"-{3,}BEGIN ([A-Z ]+)-{3,}\s*(\S+)\s*-{3,}END \1-{3,}")


def read_creds(text: str) -> tuple[str, KeyPair]:
    """Return the JWT and the key of a credentials file."""
    found = dict(_SECTION.findall(text))
    return found["NATS USER JWT"], KeyPair(found["USER NKEY SEED"])
