"""What is remembered about keys and tenants: everything but the secrets."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from bullpen.errors import Invalid
from bullpen.fleet.auth.roles import Role

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_SPAN = re.compile(r"([1-9][0-9]{0,5})([mhd])")
_SECONDS = {"m": 60, "h": 3_600, "d": 86_400}

State = Literal["counts", "expired", "revoked"]


@dataclass(frozen=True, slots=True)
class Key:
    """One key that was minted. `teams` are names as people write them."""

    name: str
    role: Role
    teams: tuple[str, ...]
    public: str
    issued_s: int
    expires_s: int | None = None
    revoked_s: int | None = None

    def state(self, now_s: int) -> State:
        """Whether servers take it."""
        if self.revoked_s is not None:
            return "revoked"
        if self.expires_s is not None and self.expires_s <= now_s:
            return "expired"
        return "counts"

    @property
    def is_for_readers(self) -> bool:
        """Whether it belongs to the account that only reads."""
        return self.role is Role.READ_ONLY and not self.teams


@dataclass(frozen=True, slots=True)
class Tenant:
    """One tenant: its two accounts and its keys. `issued_s` is when they were last signed."""

    name: str
    account: str
    readers: str
    issued_s: int
    keys: tuple[Key, ...] = ()

    def find(self, name: str, now_s: int) -> Key | None:
        """The key of that name that counts; there is one at most."""
        return next(
            (key for key in self.keys if key.name == name and key.state(now_s) == "counts"), None
        )

    def revoked(self, now_s: int, *, readers: bool) -> dict[str, int]:
        """The keys of one account that were taken back and would count otherwise, and when."""
        return {
            key.public: key.revoked_s
            for key in self.keys
            if key.is_for_readers is readers
            and key.revoked_s is not None
            and (key.expires_s is None or key.expires_s > now_s)
        }

    def to_json(self) -> dict[str, Any]:
        """As it is kept."""
        return {"v": 1, **asdict(self)}

    @classmethod
    def parse(cls, raw: Any) -> Tenant:
        """What `to_json` wrote. Raises ValueError, KeyError or TypeError for something else."""
        if not isinstance(raw, dict) or raw.pop("v", None) != 1:
            raise ValueError("it is of another version")
        return cls(**{**raw, "keys": tuple(map(_key, raw["keys"]))})


def _key(raw: dict[str, Any]) -> Key:
    return Key(**{**raw, "role": Role(raw["role"]), "teams": tuple(raw["teams"])})


def check_name(name: str, *, kind: str) -> str:
    """Return `name` if it can be one token of a subject, and so stand for nobody else.

    Raises:
        Invalid: it cannot.
    """
    if not _NAME.fullmatch(name):
        raise Invalid(
            f"{name!r} cannot be the name of a {kind}.",
            remedy="Use 1 to 63 lower-case letters, digits or '-', not beginning with '-'.",
        )
    return name


def check_teams(teams: Iterable[str]) -> tuple[str, ...]:
    """The teams that a key is bound to, each once.

    Raises:
        Invalid: one has no name.
    """
    found = tuple(dict.fromkeys(teams))
    if not all(found):
        raise Invalid("A team has a name.", remedy="Name it: --team alpha")
    return found


def seconds_of(span: str) -> int:
    """How long `30d`, `12h` or `90m` is.

    Raises:
        Invalid: it is no such text.
    """
    match = _SPAN.fullmatch(span)
    if match is None:
        raise Invalid(f"{span!r} is no span of time.", remedy="Write 30d, 12h or 90m.")
    return int(match[1]) * _SECONDS[match[2]]
