"""Records of keys and tenants, without the secrets."""

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
    """A key that was minted. `teams` are names as people write them."""

    name: str
    role: Role
    teams: tuple[str, ...]
    public: str
    issued_s: int
    expires_s: int | None = None
    revoked_s: int | None = None

    def state(self, now_s: int) -> State:
        """Return whether servers accept it."""
        if self.revoked_s is not None:
            return "revoked"
        if self.expires_s is not None and self.expires_s <= now_s:
            return "expired"
        return "counts"

    @property
    def is_for_readers(self) -> bool:
        """Return whether it belongs to the account that only reads."""
        return self.role is Role.READ_ONLY and not self.teams


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant: its two accounts and its keys. `issued_s` is when they were last signed."""

    name: str
    account: str
    readers: str
    issued_s: int
    keys: tuple[Key, ...] = ()

    def find(self, name: str, now_s: int) -> Key | None:
        """Return the valid key with that name; there is at most one."""
        return next(
            (key for key in self.keys if key.name == name and key.state(now_s) == "counts"), None
        )

    def revoked(self, now_s: int, *, readers: bool) -> dict[str, int]:
        """Return the revoked, unexpired keys of one account, and when they were revoked."""
        return {
            key.public: key.revoked_s
            for key in self.keys
            if key.is_for_readers is readers
            and key.revoked_s is not None
            and (key.expires_s is None or key.expires_s > now_s)
        }

    def to_json(self) -> dict[str, Any]:
        """Return it as it is stored."""
        return {"v": 1, **asdict(self)}

    @classmethod
    def parse(cls, raw: Any) -> Tenant:
        """Parse what `to_json` wrote. Raises ValueError, KeyError or TypeError for other input."""
        if not isinstance(raw, dict) or raw.pop("v", None) != 1:
            raise ValueError("its version is unknown")
        return cls(**{**raw, "keys": tuple(map(_key, raw["keys"]))})


def _key(raw: dict[str, Any]) -> Key:
    return Key(**{**raw, "role": Role(raw["role"]), "teams": tuple(raw["teams"])})


def check_name(name: str, *, kind: str) -> str:
    """Return `name` if it is a valid token of a subject. Raises Invalid."""
    if not _NAME.fullmatch(name):
        raise Invalid(
            f"{name!r} is not a valid name for a {kind}.",
            remedy="Use 1 to 63 lower-case letters, digits or '-', not starting with '-'.",
        )
    return name


def check_teams(teams: Iterable[str]) -> tuple[str, ...]:
    """Return the teams that a key is bound to, each once. Raises Invalid if a name is empty."""
    found = tuple(dict.fromkeys(teams))
    if not all(found):
        raise Invalid("The name of a team is empty.", remedy="Name it: --team alpha")
    return found


def seconds_of(span: str) -> int:
    """Return the seconds in `30d`, `12h` or `90m`. Raises Invalid."""
    match = _SPAN.fullmatch(span)
    if match is None:
        raise Invalid(f"{span!r} is not a time span.", remedy="Write 30d, 12h or 90m.")
    return int(match[1]) * _SECONDS[match[2]]
