"""How many requests a client may still send. What does not fit goes on where it stopped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class OutOfRequests(Exception):
    """A read needs more requests than are allowed now. Begun again later, it goes on."""


class RequestBudget:
    """Counts the requests of one client, and keeps the answers of a read that is not done."""

    def __init__(self) -> None:
        self.used = 0
        self._left: int | None = None
        # The answers of a read that is not done, and whether it goes on now.
        self._answers: dict[str, Any] = {}
        self._is_read = False

    @property
    def left(self) -> int | None:
        """Return how many requests are allowed; None for any number."""
        return self._left

    def take(self) -> None:
        """Count a request that is about to be sent.

        Raises:
            OutOfRequests: it is not allowed now.
        """
        if self._left is not None:
            if self._left <= 0:
                raise OutOfRequests
            self._left -= 1
        self.used += 1

    @contextmanager
    def limited(self, most: int | None) -> Iterator[None]:
        """Allow only so many requests inside."""
        self._left = most
        try:
            yield
        finally:
            self._left = None

    def lift(self) -> None:
        """Allow any number, because something changed."""
        self._left = None

    def known(self, key: str) -> Any:
        """Return what the read that goes on was answered before; None if it was not."""
        return self._answers.get(key) if self._is_read else None

    def keep(self, key: str, answer: Any) -> None:
        """Keep an answer until the read is done."""
        if self._is_read:
            self._answers[key] = answer

    @contextmanager
    def one_read(self) -> Iterator[None]:
        """Keep the answers of what is read inside, if it has to go on later.

        Whatever is read next must be the same, or the answers are `forget`ten first.
        """
        self._is_read = True
        try:
            yield
        except OutOfRequests:
            raise
        except BaseException:
            self.forget()
            raise
        else:
            self.forget()
        finally:
            self._is_read = False

    def forget(self) -> None:
        """Forget the answers of a read that is not done: it begins anew."""
        self._answers = {}
