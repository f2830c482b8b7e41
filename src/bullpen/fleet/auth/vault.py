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
from bullpen.fleet.auth.claims import scope_name
from bullpen.fleet.auth.key_records import Key, Tenant, check_name, check_teams
from bullpen.fleet.auth.keys import KeyPair, Kind, claims_of, creds_text, signed
from bullpen.fleet.auth.roles import Role
from bullpen.protocol import json_text
from bullpen.store.nats.client.subjects import token

_ADMIN = str(Role.ADMIN)
_SCOPED: tuple[tuple[Role, bool], ...] = (
    *((role, False) for role in roles.FOR_ALL_TEAMS),
    *((role, True) for role in roles.FOR_OWN_TEAMS),
)
_FOR_READERS = (Role.READ_ONLY, False)
_NOT_MADE = "Create it: bullpen auth init --dir DIR --tenant NAME"
_LOST = "Restore the folder from a backup."


class Vault:
    """The keys of one operator. Changes happen one after another, also across processes."""

    def __init__(self, directory: Path, *, now: Callable[[], float] = time.time) -> None:
        self.directory = directory
        self._now = now

    @property
    def push_creds(self) -> Path:
        """Return the credentials that tell servers about accounts, and can do nothing else."""
        return self.directory / "push.creds"

    def create(self) -> None:
        """Create an operator. Raises Conflict if the folder has one, or other content."""
        if set(private_files.names_in(self.directory)) - {"lock", "tls"}:
            raise Conflict(
                f"{self.directory} is not empty.",
                remedy="Add a tenant (bullpen auth tenant add NAME), or use another --dir.",
            )
        private_files.make_folder(self.directory)
        with self._changing(new=True):
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
        """Return the names of all tenants."""
        self._read("operator.jwt", remedy=_NOT_MADE)
        return [
            name
            for name in private_files.names_in(self.directory / "tenants")
            # Without it, the creation of the tenant did not finish.
            if (self._folder(name) / "tenant.json").exists()
        ]

    def tenant(self, name: str | None) -> Tenant:
        """Return one tenant; without a name, the only one there is. Raises NotFound and Invalid."""
        known = self.tenants()
        if name is None:
            if len(known) != 1:
                raise Invalid(
                    f"{self.directory} has {len(known)} tenants.",
                    remedy="Choose one with --tenant.",
                )
            name = known[0]
        if name not in known:
            raise NotFound(
                f"{self.directory} has no tenant {name!r}.",
                remedy="List the tenants: bullpen auth tenant list",
            )
        path = self._folder(name) / "tenant.json"
        text = private_files.read(path, remedy=_LOST)
        try:
            return Tenant.parse(json_text.loads(text))
        except (ValueError, KeyError, TypeError) as error:
            raise Unreadable(str(path), str(error), remedy=_LOST) from None

    def add_tenant(self, name: str) -> Path:
        """Create a tenant with an administrator, and return the path of its credentials.

        Raises Conflict if the name is taken, Invalid if it is not valid.
        """
        check_name(name, kind="tenant")
        with self._changing():
            self._operator()
            if name in self.tenants():
                raise Conflict(f"A tenant {name!r} already exists.", remedy="Choose another name.")
            for signer in (_ADMIN, *(scope_name(*scope) for scope in _SCOPED)):
                seed = KeyPair.generate(Kind.ACCOUNT).seed
                private_files.write(self._signing(name, signer), seed)
            account, readers = (KeyPair.generate(Kind.ACCOUNT).public for _ in range(2))
            self._keep(Tenant(name, account, readers, issued_s=0))
            return self._mint(name, _ADMIN, Role.ADMIN, (), None)[1]

    def remove_tenant(self, name: str) -> None:
        """Revoke all keys of a tenant. Its streams stay on the servers."""
        with self._changing():
            self._operator()
            self.tenant(name)
            removed = self.directory / "removed" / f"{name}-{self._now_s()}"
            private_files.make_folder(removed.parent)
            self._folder(name).rename(removed)

    def removed_accounts(self) -> list[str]:
        """Return the accounts of removed tenants."""
        folder = self.directory / "removed"
        found = []
        for name in private_files.names_in(folder):
            text = private_files.read(folder / name / "tenant.json", remedy=_LOST)
            gone = Tenant.parse(json_text.loads(text))
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
        """Create a new key. Returns it and the path of its credentials.

        Raises Conflict if there is a valid key with that name, and Invalid if the name is not valid
        or an administrator was to be bound to teams.
        """
        check_name(name, kind="key")
        teams = check_teams(teams)
        if role is Role.ADMIN and teams:
            raise Invalid(
                "An administrator cannot be bound to teams, because it has the streams of all "
                "teams.",
                remedy="Mint a key with role human or host for those teams.",
            )
        with self._changing():
            held = self.tenant(tenant)
            if held.find(name, self._now_s()) is not None:
                raise Conflict(
                    f"Tenant {held.name!r} already has a key {name!r}.",
                    remedy=f"Replace it (bullpen auth rotate {name}), or choose another name.",
                )
            return self._mint(held.name, name, role, teams, lasts_s)

    def revoke(self, tenant: str | None, name: str) -> Key:
        """Revoke a valid key, effective once servers have been told. Raises NotFound."""
        with self._changing():
            return self._revoke(tenant, name)

    def rotate(self, tenant: str | None, name: str) -> tuple[Key, Path]:
        """Give a name a new key with the same rights, and revoke the old one."""
        with self._changing():
            old = self._revoke(tenant, name)
            lasts_s = None if old.expires_s is None else old.expires_s - old.issued_s
            held = self.tenant(tenant)
            return self._mint(held.name, name, old.role, old.teams, lasts_s)

    # For servers

    def accounts(self) -> dict[str, str]:
        """Return the signed accounts that servers need, by public key; the system account first."""
        found = [self._read("system.jwt", remedy=_NOT_MADE)]
        for name in self.tenants():
            folder = self._folder(name)
            found += [
                private_files.read(folder / file, remedy=_LOST)
                for file in ("account.jwt", "readers.jwt")
            ]
        return {str(claims_of(text)["sub"]): text for text in found}

    def operator_jwt(self) -> str:
        """Return the operator as servers are configured with it."""
        return self._read("operator.jwt", remedy=_NOT_MADE)

    def removal_order(self) -> str | None:
        """Return the signed order to forget removed tenants; None if there are none."""
        gone = self.removed_accounts()
        if not gone:
            return None
        operator = self._operator()
        return signed(claims.removed_accounts(operator.public, gone, now_s=self._now_s()), operator)

    def sign_again(self) -> list[str]:
        """Sign the tenants again whose roles are from another version. Returns their names."""
        with self._changing():
            stale = [name for name in self.tenants() if self._is_stale(name)]
            for name in stale:
                self._keep(self.tenant(name))
            return stale

    # Internals

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
        signer = self._signer(tenant, scope_name(role, bool(teams)))
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
        # Recorded first: a key that somebody has but nobody recorded could not be revoked.
        self._remember(replace(held, keys=(*held.keys, key)))
        private_files.write(path, creds_text(signed(body, signer), user))
        return key, path

    def _revoke(self, tenant: str | None, name: str) -> Key:
        held = self.tenant(tenant)
        now_s = self._now_s()
        key = held.find(name, now_s)
        if key is None:
            raise NotFound(
                f"Tenant {held.name!r} has no valid key {name!r}.",
                remedy="List the keys: bullpen auth list",
            )
        gone = replace(key, revoked_s=now_s)
        kept = tuple(gone if each == key else each for each in held.keys)
        self._keep(replace(held, keys=kept))
        (self._folder(held.name) / "creds" / f"{name}.creds").unlink(missing_ok=True)
        return gone

    def _keep(self, tenant: Tenant) -> None:
        """Sign a tenant's accounts as they are now, and record it."""
        operator = self._operator()
        # Servers accept what was signed later, and only know whole seconds.
        now_s = max(self._now_s(), tenant.issued_s + 1)
        tenant = replace(tenant, issued_s=now_s)
        account, readers = self._bodies(tenant)
        folder = self._folder(tenant.name)
        private_files.write(folder / "readers.jwt", signed(readers, operator))
        private_files.write(folder / "account.jwt", signed(account, operator))
        self._remember(tenant)

    def _remember(self, tenant: Tenant) -> None:
        path = self._folder(tenant.name) / "tenant.json"
        private_files.write(path, json_text.dumps(tenant.to_json()).decode())

    def _bodies(self, tenant: Tenant) -> tuple[dict[str, object], dict[str, object]]:
        signers = {scope: self._signer(tenant.name, scope_name(*scope)).public for scope in _SCOPED}
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
    def _changing(self, *, new: bool = False) -> Iterator[None]:
        if not self.directory.is_dir():
            raise NotFound(f"The folder {self.directory} does not exist.", remedy=_NOT_MADE)
        if not new:
            # A folder that is no vault stays as it is, without even a lock.
            self.operator_jwt()
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        lock = os.open(self.directory / "lock", flags, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)
