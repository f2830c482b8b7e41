"""The folder that keeps an operator's keys, its tenants, and what was minted for them.

    operator.seed                   signs accounts; may be kept elsewhere while nothing changes
    operator.jwt, system.jwt        what servers are configured with
    push.creds                      tells running servers about accounts
    tenants/NAME/tenant.json        what is known about it; no secrets
    tenants/NAME/account.jwt        the account that has the streams
    tenants/NAME/accounts/KEY.jwt   the account of one key
    tenants/NAME/signing/admin.seed, keys.seed
                                    sign the administrators, and all other keys
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
from typing import Any

from bullpen.errors import Conflict, Invalid, NotFound, Unreadable
from bullpen.fleet.auth import claims, private_files, roles
from bullpen.fleet.auth.key_records import Key, Tenant, check_name, check_teams
from bullpen.fleet.auth.keys import KeyPair, Kind, claims_of, creds_text, signed
from bullpen.fleet.auth.roles import OwnTeam, Role, RoleRights
from bullpen.protocol import json_text
from bullpen.store.nats.client.subjects import token

_ADMIN = str(Role.ADMIN)
_KEYS = "keys"
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
            for signer in (_ADMIN, _KEYS):
                seed = KeyPair.generate(Kind.ACCOUNT).seed
                private_files.write(self._signing(name, signer), seed)
            account = KeyPair.generate(Kind.ACCOUNT).public
            self._keep(Tenant(name, account, issued_s=0))
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
        """Return the accounts of removed tenants, and those that an upgrade made useless."""
        folder = self.directory / "removed"
        found = []
        for name in private_files.names_in(folder):
            text = private_files.read(folder / name / "tenant.json", remedy=_LOST)
            found += Tenant.parse(json_text.loads(text)).all_accounts
        for name in self.tenants():
            gone = private_files.read_if_any(self._folder(name) / "gone.jwt")
            found += [] if gone is None else [str(claims_of(gone)["sub"])]
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
            held, folder = self.tenant(name), self._folder(name)
            files = ["account.jwt", *(f"accounts/{key}.jwt" for key in held.accounts)]
            if held.readers is not None:
                files.append("readers.jwt")
            found += [private_files.read(folder / file, remedy=_LOST) for file in files]
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
        """Sign the tenants again whose rights are from another version. Returns their names."""
        with self._changing():
            stale = [name for name in self.tenants() if self._is_stale(name)]
            for name in stale:
                self._keep(self.tenant(name))
            return stale

    def visitor(self, tenant: str, *, lasts_s: int) -> str:
        """Return credentials of an administrator for a moment, which are recorded nowhere."""
        held, user, now_s = self.tenant(tenant), KeyPair.generate(Kind.USER), self._now_s()
        body = claims.user(
            user.public,
            _ADMIN,
            role=Role.ADMIN,
            account=held.account,
            expires_s=now_s + lasts_s,
            now_s=now_s,
        )
        return creds_text(signed(body, self._signer(tenant, _ADMIN)), user)

    # From the version in which keys shared the account of the streams

    def upgrade(self, tenant: str | None) -> list[tuple[Key, Path]]:
        """Give every older key a new one with the same rights; the older still counts.

        Returns the new keys with the paths of their credentials. Safe to repeat.
        """
        with self._changing():
            held = self.tenant(tenant)
            now_s = self._now_s()
            made = []
            for key in held.keys:
                newest = self.tenant(held.name).find(key.name, now_s)
                if key.older and newest == key:
                    lasts_s = None if key.expires_s is None else key.expires_s - now_s
                    made.append(self._mint(held.name, key.name, key.role, key.teams, lasts_s))
            self._keep(self.tenant(held.name))
            return made

    def finish_upgrade(self, tenant: str | None) -> list[Key]:
        """Revoke all older keys, effective once servers have been told. Returns them."""
        with self._changing():
            held = self.tenant(tenant)
            now_s = self._now_s()
            ended = [key for key in held.keys if key.older and key.state(now_s) == "counts"]
            keys = tuple(
                replace(key, revoked_s=now_s) if key in ended else key for key in held.keys
            )
            if held.readers is not None:
                readers = self._folder(held.name) / "readers.jwt"
                readers.rename(readers.with_name("gone.jwt"))
            self._keep(replace(held, keys=keys, readers=None))
            return ended

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
        if role is not Role.ADMIN and name not in held.accounts:
            account = KeyPair.generate(Kind.ACCOUNT).public
            held = replace(held, accounts={**held.accounts, name: account})
        body = claims.user(
            user.public,
            name,
            role=role,
            account=held.account if role is Role.ADMIN else held.accounts[name],
            teams=[*map(token, teams)],
            expires_s=key.expires_s,
            now_s=now_s,
        )
        path = self._folder(tenant) / "creds" / f"{name}.creds"
        # Recorded first: a key that somebody has but nobody recorded could not be revoked.
        self._keep(replace(held.with_own(teams), keys=(*held.keys, key)))
        signer = self._signer(tenant, _ADMIN if role is Role.ADMIN else _KEYS)
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
        # An older key with that name ends with it.
        kept = tuple(
            replace(each, revoked_s=now_s)
            if each.name == name and each.state(now_s) == "counts"
            else each
            for each in held.keys
        )
        self._keep(replace(held, keys=kept))
        (self._folder(held.name) / "creds" / f"{name}.creds").unlink(missing_ok=True)
        return gone

    def _keep(self, tenant: Tenant) -> None:
        """Record a tenant, and sign those of its accounts that changed."""
        operator = self._operator()
        if not self._signing(tenant.name, _KEYS).exists():
            # A tenant of an earlier version.
            seed = KeyPair.generate(Kind.ACCOUNT).seed
            private_files.write(self._signing(tenant.name, _KEYS), seed)
        # Servers accept what was signed later, and only know whole seconds.
        tenant = replace(tenant, issued_s=max(self._now_s(), tenant.issued_s + 1))
        self._remember(tenant)
        for path, body in self._bodies(tenant).items():
            if not _says(path, body):
                private_files.write(path, signed(body, operator))

    def _remember(self, tenant: Tenant) -> None:
        path = self._folder(tenant.name) / "tenant.json"
        private_files.write(path, json_text.dumps(tenant.to_json()).decode())

    def _bodies(self, tenant: Tenant) -> dict[Path, dict[str, Any]]:
        """Return what the accounts of a tenant should say, by file; that of the streams last."""
        folder, now_s = self._folder(tenant.name), tenant.issued_s
        found: dict[Path, dict[str, Any]] = {}
        for name, account in tenant.accounts.items():
            found[folder / "accounts" / f"{name}.jwt"] = claims.key_account(
                account,
                name,
                tenant=tenant.name,
                tenant_account=tenant.account,
                signer=self._signer(tenant.name, _KEYS).public,
                held=self._rights(tenant, name),
                revoked=tenant.revoked(now_s, account=name),
                now_s=now_s,
            )
        found[folder / "account.jwt"] = claims.tenant_account(
            tenant.account,
            tenant.name,
            admin_signer=self._signer(tenant.name, _ADMIN).public,
            older=self._older_signers(tenant),
            revoked=tenant.revoked(now_s, account=None),
            now_s=now_s,
        )
        if tenant.readers is not None:
            path = folder / "readers.jwt"
            body = claims_of(private_files.read(path, remedy=_LOST))
            revoked = {**body["nats"]["revocations"], **tenant.revoked(now_s, account=None)}
            found[path] = {**body, "iat": now_s, "nats": {**body["nats"], "revocations": revoked}}
        return found

    def _rights(self, tenant: Tenant, name: str) -> RoleRights | None:
        """Return what the last key of a name may do; None if it was revoked."""
        *_, key = (key for key in tenant.keys if key.name == name and not key.is_beside_streams)
        if key.revoked_s is not None:
            return None
        teams = [OwnTeam(token(team), tenant.own[team]) for team in key.teams]
        return roles.rights(key.role, name, teams)

    def _older_signers(self, tenant: Tenant) -> list[object]:
        """Return the signing keys of an earlier version, as that version signed them."""
        if tenant.readers is None:
            return []
        path = self._folder(tenant.name) / "account.jwt"
        known = claims_of(private_files.read(path, remedy=_LOST))["nats"]["signing_keys"]
        return [claims.also_starts(each) for each in known if isinstance(each, dict)]

    def _is_stale(self, name: str) -> bool:
        return not all(_says(path, body) for path, body in self._bodies(self.tenant(name)).items())

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


def _says(path: Path, body: dict[str, Any]) -> bool:
    """Return whether a signed file says this already."""
    text = private_files.read_if_any(path)
    return text is not None and claims_of(text)["nats"] == body["nats"]
