"""The errors for a change to a team that could not be stored, or not for certain."""

from __future__ import annotations

from bullpen.errors import Invalid, Unavailable
from bullpen.store.nats.client.api_requests import ApiError, NoAnswer
from bullpen.store.nats.client.connection import NatsConnection
from bullpen.store.nats.client.streams import PAYLOAD_MAX
from bullpen.store.nats.client.subjects import Address

_TOO_LONG = 10054


class Refusals:
    """Words for what went wrong with one team."""

    def __init__(self, link: NatsConnection, address: Address) -> None:
        self._link = link
        self._address = address

    def busy(self) -> Unavailable:
        """Return the error of a call that waited too long for others."""
        return Unavailable(
            f"Team {self._address.team!r} is busy: other calls are waiting for "
            f"{self._link.endpoint}.",
            remedy="Try again.",
        )

    def too_long(self, size: int) -> Invalid:
        """Return the error for a change that no message can hold."""
        return Invalid(
            f"One change to team {self._address.team!r} has {size} bytes. The limit is "
            f"{PAYLOAD_MAX}.",
            remedy="Make several smaller changes, or put the content in files.",
        )

    def no_answer(self, error: NoAnswer, known: str = "") -> Unavailable:
        """Return the error for servers that did not answer in time."""
        said = f"{self._link.endpoint} did not answer about team {self._address.team!r} ({error})."
        return Unavailable(
            f"{said} {known}".rstrip(), remedy="Check `bullpen server status`, then try again."
        )

    def final(self, error: ApiError, *, maybe: bool, late: bool) -> Invalid | Unavailable | None:
        """Return the error for a change that a server refused; None to try again.

        `maybe` says that an earlier attempt may have been stored, `late` that there is no time.
        """
        if error.err_code == _TOO_LONG:
            return Invalid(
                f"The server does not accept a message of that length: {error.description}.",
                remedy="Put the content in a file, or raise max_payload.",
            )
        if error.is_full and not maybe:
            # Waiting makes no room.
            return Unavailable(
                f"{self._link.endpoint} has no room for a change to team {self._address.team!r} in "
                f"{self._address.stream}: {error.description}. Nothing was changed.",
                remedy="Free disk space on the servers, or raise the limit of the stream, then try "
                "again.",
            )
        if late:
            return Unavailable(
                f"The server could not store a change to team {self._address.team!r}: {error}. It "
                "is unknown whether an earlier attempt was stored.",
                remedy="Check `bullpen server status`, then try again.",
            )
        return None
