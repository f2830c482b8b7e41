"""Records of keys and tenants, without the secrets."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from bullpen.errors import Invalid
from bullpen.fleet.auth.roles import Role
from bullpen.store.nats.client.subjects import OWN_FIRST

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_SPAN = re.compile(r"([1-9][0-9]{0,5})([mhd])")
_SECONDS = {"m": 60, "h": 3_600, "d": 86_400}

State = Literal["counts", "expired", "revoked"]


@dataclass(frozen=True, slots=True)
class Key:
    """A key that was minted. `teams` are names as people write them.

    An `older` one was minted by a version whose keys shared the account of the streams.
    """

    name: str
    role: Role
    teams: tuple[str, ...]
    public: str
    issued_s: int
    expires_s: int | None = None
    revoked_s: int | None = None
    older: bool = False

    def state(self, now_s: int) -> State:
        """Return whether servers accept it."""
        if self.revoked_s is not None:
            return "revoked"
        if self.expires_s is not None and self.expires_s <= now_s:
            return "expired"
        return "counts"

    @property
    def is_beside_streams(self) -> bool:
        """Return whether it belongs to the account that has the streams."""
        return self.role is Role.ADMIN or self.older


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant: its accounts and its keys. `issued_s` is when it was last signed.

    `account` has the streams. `accounts` are those of the other keys, by name. `own` are the
    partitions of teams that keys are bound to. `readers` is an account of an earlier version, while
    keys of it still count.
    """

    name: str
    account: str
    issued_s: int
    keys: tuple[Key, ...] = ()
    accounts: dict[str, str] = field(default_factory=dict)
    own: dict[str, int] = field(default_factory=dict)
    readers: str | None = None

    def find(self, name: str, now_s: int) -> Key | None:
        """Return the valid key with that name; there is at most one, besides an older one."""
        found = [key for key in self.keys if key.name == name and key.state(now_s) == "counts"]
        return min(found, key=lambda key: key.older, default=None)

    def revoked(self, now_s: int, *, account: str | None) -> dict[str, int]:
        """Return the revoked, unexpired keys of one account, and when they were revoked.

        `account` is the name of a key's own; None is the one of the streams.
        """
        return {
            key.public: key.revoked_s
            for key in self.keys
            if (None if key.is_beside_streams else key.name) == account
            and key.revoked_s is not None
            and (key.expires_s is None or key.expires_s > now_s)
        }

    @property
    def all_accounts(self) -> list[str]:
        """Return every account of it."""
        return [self.account, *self.accounts.values(), *([self.readers] if self.readers else [])]

    def with_own(self, teams: Iterable[str]) -> Tenant:
        """Return it with a partition for each of these teams."""
        own = dict(self.own)
        for team in teams:
            own.setdefault(team, max(own.values(), default=OWN_FIRST - 1) + 1)
        return replace(self, own=own)

    def to_json(self) -> dict[str, Any]:
        """Return it as it is stored."""
        return {"v": 2, **asdict(self)}

    @classmethod
    def parse(cls, raw: Any) -> Tenant:
        """Parse what `to_json` wrote. Raises ValueError, KeyError or TypeError for other input."""
        version = raw.pop("v", None) if isinstance(raw, dict) else None
        if version not in (1, 2):
            raise ValueError("its version is unknown")
        found = cls(**{**raw, "keys": tuple(map(_key, raw["keys"]))})
        if version == 2:
            return found
        keys = (replace(key, older=key.role is not Role.ADMIN) for key in found.keys)
        return replace(found, keys=tuple(keys))


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
