"""Fresh ids, which an operation takes from outside itself as it does the time."""

from __future__ import annotations

import uuid
from collections.abc import Callable

NewId = Callable[[], str]
"""An id that nobody else has."""


def new_id() -> str:
    """A random UUID."""
    return str(uuid.uuid4())
