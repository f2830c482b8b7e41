"""The folder that keeps an operator's keys, its tenants, and what was minted for them.

    operator.seed                   signs accounts; may be kept elsewhere while nothing changes
    operator.jwt, system.jwt        what servers are configured with
    push.creds                      tells running servers about accounts
    tenants/NAME/tenant.json        what is known about it; no secrets
    tenants/NAME/account.jwt, readers.jwt
    tenants/NAME/signing/ROLE.seed  signs the keys of a role
    tenants/NAME/creds/KEY.creds    what a host or a person gets
    removed/NAME-TIME/              tenants that are no more

The seeds of accounts themselves are kept nowhere: their signing keys do all that is needed.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from bullpen.errors import Conflict, Invalid, NotFound, Unreadable
from bullpen.fleet.auth import claims, private_files, roles
from bullpen.fleet.auth.keys import KeyPair, Kind, claims_of, creds_text, signed
from bullpen.fleet.auth.records import Key, Tenant, check_name, check_teams
from bullpen.fleet.auth.roles import Role
from bullpen.protocol import jsontext
from bullpen.store.nats.subjects import token

_ADMIN = "admin"
_SCOPED: tuple[tuple[Role, bool], ...] = (
    *((role, False) for role in roles.FOR_ALL_TEAMS),
    *((role, True) for role in roles.FOR_OWN_TEAMS),
)
_FOR_READERS = (Role.READ_ONLY, False)
_NOT_MADE = "Make it: bullpen auth init --dir DIR --tenant NAME"
_LOST = "Restore the folder from a backup."


class Vault:
    """What one operator has. Changes are made one after another, also by several processes."""

    def __init__(self, directory: Path, *, now: Callable[[], float] = time.time) -> None:
        self.directory = directory
        self._now = now

    @property
    def push_creds(self) -> Path:
        """The credentials that tell servers about accounts, and can do nothing else."""
        return self.directory / "push.creds"

    def create(self) -> None:
        """Make an operator.

        Raises:
            Conflict: there is one already, or the folder holds something else.
        """
        if set(private_files.names_in(self.directory)) - {"lock", "tls"}:
            raise Conflict(
                f"{self.directory} is not empty.",
                remedy="Add a tenant: bullpen auth tenant add NAME; or name another --dir.",
            )
        private_files.make_folder(self.directory)
        with self._changing():
            now_s = self._now_s()
            operator, system, signer = (
                KeyPair.generate(kind) for kind in (Kind.OPERATOR, Kind.ACCOUNT, Kind.ACCOUNT)
            )
            user = KeyPair.generate(Kind.USER)
            held = claims.push_user(user.public, account=system.public, now_s=now_s)
            self._write("operator.seed", operator.seed)
            self._write("push.creds", creds_text(signed(held, signer), user))
            held = claims.system_account(system.public, signer=signer.public, now_s=now_s)
            self._write("system.jwt", signed(held, operator))
            held = claims.operator(operator.public, system=system.public, now_s=now_s)
            self._write("operator.jwt", signed(held, operator))

    # Tenants

    def tenants(self) -> list[str]:
        """The names of all tenants."""
        self._read("operator.jwt", remedy=_NOT_MADE)
        return [
            name
            for name in private_files.names_in(self.directory / "tenants")
            # Without it, the tenant was not made to the end.
            if (self._folder(name) / "tenant.json").exists()
        ]

    def tenant(self, name: str | None) -> Tenant:
        """One tenant; without a name, the only one there is.

        Raises:
            NotFound: there is none of that name.
            Invalid: there are several, and none was named.
        """
        known = self.tenants()
        if name is None:
            if len(known) != 1:
                raise Invalid(
                    f"There are {len(known)} tenants in {self.directory}.",
                    remedy="Say which one with --tenant.",
                )
            name = known[0]
        if name not in known:
            raise NotFound(
                f"There is no tenant {name!r} in {self.directory}.",
                remedy="See which there are: bullpen auth tenant list",
            )
        path = self._folder(name) / "tenant.json"
        text = private_files.read(path, remedy=_LOST)
        try:
            return Tenant.parse(jsontext.loads(text))
        except (ValueError, KeyError, TypeError) as error:
            raise Unreadable(str(path), str(error), remedy=_LOST) from None

    def add_tenant(self, name: str) -> Path:
        """Make a tenant with an administrator; the path of the administrator's credentials.

        Raises:
            Conflict: there is one of that name.
            Invalid: a tenant cannot have that name.
        """
        check_name(name, kind="tenant")
        with self._changing():
            self._operator()
            if name in self.tenants():
                raise Conflict(f"There is a tenant {name!r}.", remedy="Choose another name.")
            for signer in (_ADMIN, *map(_signer_name, _SCOPED)):
                seed = KeyPair.generate(Kind.ACCOUNT).seed
                private_files.write(self._signing(name, signer), seed)
            account, readers = (KeyPair.generate(Kind.ACCOUNT).public for _ in range(2))
            self._keep(Tenant(name, account, readers, issued_s=0))
            return self._mint(name, _ADMIN, Role.ADMIN, (), None)[1]

    def remove_tenant(self, name: str) -> None:
        """Let all keys of a tenant count no more. Its streams stay on the servers."""
        with self._changing():
            self._operator()
            self.tenant(name)
            grave = self.directory / "removed" / f"{name}-{self._now_s()}"
            private_files.make_folder(grave.parent)
            self._folder(name).rename(grave)

    def removed_accounts(self) -> list[str]:
        """The accounts of tenants that were removed."""
        folder = self.directory / "removed"
        found = []
        for name in private_files.names_in(folder):
            text = private_files.read(folder / name / "tenant.json", remedy=_LOST)
            gone = Tenant.parse(jsontext.loads(text))
            found += [gone.account, gone.readers]
        return found

    # Keys

    def mint(
        self,
        tenant: str | None,
        name: str,
        role: Role,
        *,
        teams: tuple[str, ...] = (),
        lasts_s: int | None = None,
    ) -> tuple[Key, Path]:
        """A new key, and the path of its credentials.

        Raises:
            Conflict: there is a key of that name that counts.
            Invalid: a key cannot have that name, or an administrator was to be bound to teams.
        """
        check_name(name, kind="key")
        teams = check_teams(teams)
        if role is Role.ADMIN and teams:
            raise Invalid(
                "An administrator is not bound to teams: it has the streams of all.",
                remedy="Mint a human or a host for those teams.",
            )
        with self._changing():
            held = self.tenant(tenant)
            if held.find(name, self._now_s()) is not None:
                raise Conflict(
                    f"There is a key {name!r} in tenant {held.name!r}.",
                    remedy=f"Make it anew: bullpen auth rotate {name}; or choose another name.",
                )
            return self._mint(held.name, name, role, teams, lasts_s)

    def revoke(self, tenant: str | None, name: str) -> Key:
        """Let a key count no more, once servers have been told.

        Raises:
            NotFound: there is none of that name that counts.
        """
        with self._changing():
            return self._revoke(tenant, name)

    def rotate(self, tenant: str | None, name: str) -> tuple[Key, Path]:
        """Give a name another key with the same rights, and take back the one it has."""
        with self._changing():
            old = self._revoke(tenant, name)
            lasts_s = None if old.expires_s is None else old.expires_s - old.issued_s
            held = self.tenant(tenant)
            return self._mint(held.name, name, old.role, old.teams, lasts_s)

    # What servers are told

    def accounts(self) -> dict[str, str]:
        """The signed accounts that servers should have, by public key; the system account first."""
        found = [self._read("system.jwt", remedy=_NOT_MADE)]
        for name in self.tenants():
            folder = self._folder(name)
            found += [
                private_files.read(folder / file, remedy=_LOST)
                for file in ("account.jwt", "readers.jwt")
            ]
        return {str(claims_of(text)["sub"]): text for text in found}

    def operator_jwt(self) -> str:
        """The operator as servers are configured with it."""
        return self._read("operator.jwt", remedy=_NOT_MADE)

    def removal_order(self) -> str | None:
        """The signed order to forget removed tenants; None if there are none."""
        gone = self.removed_accounts()
        if not gone:
            return None
        operator = self._operator()
        return signed(claims.removed_accounts(operator.public, gone, now_s=self._now_s()), operator)

    def sign_again(self) -> list[str]:
        """Sign the tenants again whose roles are not those of this version; their names."""
        with self._changing():
            stale = [name for name in self.tenants() if self._is_stale(name)]
            for name in stale:
                self._keep(self.tenant(name))
            return stale

    # Within

    def _mint(
        self, tenant: str, name: str, role: Role, teams: tuple[str, ...], lasts_s: int | None
    ) -> tuple[Key, Path]:
        held = self.tenant(tenant)
        now_s = self._now_s()
        user = KeyPair.generate(Kind.USER)
        key = Key(
            name, role, teams, user.public, now_s, None if lasts_s is None else now_s + lasts_s
        )
        account = held.readers if key.is_for_readers else held.account
        if role is Role.ADMIN:
            signer = self._signer(tenant, _ADMIN)
            body = claims.admin(
                user.public, name, account=account, expires_s=key.expires_s, now_s=now_s
            )
        else:
            signer = self._signer(tenant, _signer_name((role, bool(teams))))
            body = claims.user(
                user.public,
                name,
                role=role,
                account=account,
                teams=[*map(token, teams)],
                expires_s=key.expires_s,
                now_s=now_s,
            )
        path = self._folder(tenant) / "creds" / f"{name}.creds"
        # Remembered first: a key that somebody holds and nobody knows could not be taken back.
        self._remember(replace(held, keys=(*held.keys, key)))
        private_files.write(path, creds_text(signed(body, signer), user))
        return key, path

    def _revoke(self, tenant: str | None, name: str) -> Key:
        held = self.tenant(tenant)
        now_s = self._now_s()
        key = held.find(name, now_s)
        if key is None:
            raise NotFound(
                f"There is no key {name!r} in tenant {held.name!r} that counts.",
                remedy="See which there are: bullpen auth list",
            )
        gone = replace(key, revoked_s=now_s)
        kept = tuple(gone if each == key else each for each in held.keys)
        self._keep(replace(held, keys=kept))
        (self._folder(held.name) / "creds" / f"{name}.creds").unlink(missing_ok=True)
        return gone

    def _keep(self, tenant: Tenant) -> None:
        """Sign a tenant's accounts as they are now, and remember it."""
        operator = self._operator()
        # Servers take what was signed later, and know only whole seconds.
        now_s = max(self._now_s(), tenant.issued_s + 1)
        tenant = replace(tenant, issued_s=now_s)
        account, readers = self._bodies(tenant)
        folder = self._folder(tenant.name)
        private_files.write(folder / "readers.jwt", signed(readers, operator))
        private_files.write(folder / "account.jwt", signed(account, operator))
        self._remember(tenant)

    def _remember(self, tenant: Tenant) -> None:
        path = self._folder(tenant.name) / "tenant.json"
        private_files.write(path, jsontext.dumps(tenant.to_json()).decode())

    def _bodies(self, tenant: Tenant) -> tuple[dict[str, object], dict[str, object]]:
        signers = {
            scope: self._signer(tenant.name, _signer_name(scope)).public for scope in _SCOPED
        }
        reading = {_FOR_READERS: signers.pop(_FOR_READERS)}
        account = claims.tenant_account(
            tenant.account,
            tenant.name,
            admin_signer=self._signer(tenant.name, _ADMIN).public,
            signers=signers,
            revoked=tenant.revoked(tenant.issued_s, readers=False),
            now_s=tenant.issued_s,
        )
        readers = claims.readers_account(
            tenant.readers,
            tenant.name,
            tenant=tenant.account,
            signers=reading,
            revoked=tenant.revoked(tenant.issued_s, readers=True),
            now_s=tenant.issued_s,
        )
        return account, readers

    def _is_stale(self, name: str) -> bool:
        folder = self._folder(name)
        wanted = self._bodies(self.tenant(name))
        return any(
            claims_of(private_files.read(folder / file, remedy=_LOST))["nats"] != body["nats"]
            for file, body in zip(("account.jwt", "readers.jwt"), wanted, strict=True)
        )

    def _operator(self) -> KeyPair:
        text = self._read(
            "operator.seed", remedy=f"Put the operator's seed back into {self.directory}."
        )
        return KeyPair(text.strip())

    def _signer(self, tenant: str, name: str) -> KeyPair:
        return KeyPair(private_files.read(self._signing(tenant, name), remedy=_LOST).strip())

    def _signing(self, tenant: str, name: str) -> Path:
        return self._folder(tenant) / "signing" / f"{name}.seed"

    def _folder(self, tenant: str) -> Path:
        return self.directory / "tenants" / tenant

    def _read(self, name: str, *, remedy: str) -> str:
        return private_files.read(self.directory / name, remedy=remedy)

    def _write(self, name: str, text: str) -> None:
        private_files.write(self.directory / name, text)

    def _now_s(self) -> int:
        return int(self._now())

    @contextmanager
    def _changing(self) -> Iterator[None]:
        if not self.directory.is_dir():
            raise NotFound(f"There is no folder {self.directory}.", remedy=_NOT_MADE)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        lock = os.open(self.directory / "lock", flags, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def _signer_name(scope: tuple[Role, bool]) -> str:
    role, bound = scope
    return f"{role}-of-teams" if bound else str(role)
