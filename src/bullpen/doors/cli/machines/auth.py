"""`bullpen auth`: keys for NATS servers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio

from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options.option import argument, flag, option
from bullpen.doors.cli.output.page import as_json
from bullpen.doors.cli.session import Session, directory
from bullpen.errors import Invalid, Unavailable
from bullpen.fleet.auth.key_records import Key, check_name, seconds_of
from bullpen.fleet.auth.resolver import include_text
from bullpen.fleet.auth.resolver import push as push_to_servers
from bullpen.fleet.auth.roles import Role
from bullpen.fleet.auth.tls import check_host, issue
from bullpen.fleet.auth.vault import Vault
from bullpen.protocol.clock import iso

Where = Annotated[
    str | None, option("Folder with the keys [default: auth in the home]", "DIR", "--dir")
]
Tenant = Annotated[str | None, option("The tenant [default: the only one]", "NAME")]
TenantName = Annotated[str, argument("Name of the tenant", "NAME")]
KeyName = Annotated[str, argument("Name of the host or person", "NAME")]


@examples("bullpen auth init --tenant acme", "bullpen auth init --dir ./keys --tenant acme")
def init(
    session: Session,
    *,
    tenant: Annotated[str, option("Name of the first tenant", "NAME")],
    where: Where = None,
) -> None:
    """Create an operator and its first tenant.

    The operator's seed is in operator.seed. Only tenants and revocations need it, so you can store
    it elsewhere.
    """

    vault = _vault(session, where)
    check_name(tenant, kind="tenant")
    vault.create()
    creds = vault.add_tenant(tenant)
    session.page.result(
        "auth-created/1",
        {"directory": str(vault.directory), "tenant": tenant, "admin": str(creds)},
        f"Created {vault.directory} with tenant {tenant}.",
        f"Administrator key: {creds}",
        "Store operator.seed where nobody else can read it.",
    )


@examples("bullpen auth tenant add acme")
def add_tenant(session: Session, name: TenantName, *, where: Where = None) -> None:
    """Add a tenant with an administrator."""
    vault = _vault(session, where)
    creds = vault.add_tenant(name)
    told = _told(session, vault)
    session.page.result(
        "auth-tenant-added/1",
        {"tenant": name, "admin": str(creds), "servers": told},
        f"Added tenant {name}.",
        f"Administrator key: {creds}",
        _in_force(told),
    )


@examples("bullpen auth tenant list")
def list_tenants(session: Session, *, where: Where = None) -> None:
    """List the tenants."""
    names = _vault(session, where).tenants()
    value = {"tenants": [{"tenant": name} for name in names]}
    session.page.result("auth-tenants/1", value, *(names or ["No tenants."]))


@examples("bullpen auth tenant remove acme --yes")
def remove_tenant(
    session: Session,
    name: TenantName,
    *,
    where: Where = None,
    yes: Annotated[bool, flag("Do not ask for confirmation", "--yes")] = False,
) -> None:
    """Revoke all keys of a tenant.

    Its streams stay on the servers.
    """
    vault = _vault(session, where)
    vault.tenant(name)
    session.confirm(f"Revoke all keys of tenant {name}?", yes=yes)
    vault.remove_tenant(name)
    told = _told(session, vault)
    session.page.result(
        "auth-tenant-removed/1",
        {"tenant": name, "removed": True, "servers": told},
        f"Removed tenant {name}.",
        _in_force(told),
    )


@examples(
    "bullpen auth mint host web-1 --expires 90d",
    "bullpen auth mint host guest-1 --for alpha --for beta",
    "bullpen auth mint human ann",
    "bullpen auth mint read-only wall-screen --for alpha",
)
def mint(
    session: Session,
    role: Annotated[
        Literal["host", "human", "read-only", "admin"],
        argument("host, human, read-only or admin", "ROLE"),
    ],
    name: KeyName,
    *,
    teams: Annotated[
        list[str] | None,
        option(
            "Limit the key to this team [repeatable; default: --team, or all teams of the tenant]",
            "TEAM",
            "--for",
        ),
    ] = None,
    expires: Annotated[
        str | None, option("How long it is valid: 30d, 12h, 90m [default: until revoked]", "SPAN")
    ] = None,
    tenant: Tenant = None,
    where: Where = None,
) -> None:
    """Create a key for a host, a person or a reader.

    Prints the path of the key file. A host runs agents. A human reads, writes and asks hosts for
    agents. A read-only key changes nothing. An admin can do everything in its tenant. A key for
    certain teams works only there, and neither requests agents nor runs them.

    Running servers accept the key after `bullpen auth push`.
    """

    named = session.settings.team if session.settings.team_source == "option" else None
    bound = tuple(teams or ([named] if named else ()))
    lasts_s = None if expires is None else seconds_of(expires)
    vault = _vault(session, where)
    key, path = vault.mint(tenant, name, Role(role), teams=bound, lasts_s=lasts_s)
    session.page.result("auth-key/1", {**_value(key), "path": str(path)}, str(path))


@examples("bullpen auth list", "bullpen auth list --json")
def list_keys(session: Session, *, tenant: Tenant = None, where: Where = None) -> None:
    """List the keys of a tenant."""

    keys = _vault(session, where).tenant(tenant).keys
    if session.json:
        session.page.value("auth-keys/1", {"keys": keys})
        return
    now_s = int(time.time())
    session.page.table(
        ("name", "role", "state", "issued", "expires", "teams"),
        [
            (
                key.name,
                str(key.role),
                key.state(now_s),
                _day(key.issued_s),
                "never" if key.expires_s is None else _day(key.expires_s),
                ", ".join(key.teams) or "all",
            )
            for key in keys
        ],
    )


@examples("bullpen auth revoke web-1")
def revoke(
    session: Session,
    name: KeyName,
    *,
    tenant: Tenant = None,
    where: Where = None,
) -> None:
    """Revoke a key.

    Servers that are told disconnect whoever uses it.
    """
    vault = _vault(session, where)
    key = vault.revoke(tenant, name)
    told = _told(session, vault)
    session.page.result(
        "auth-key/1",
        {**_value(key), "servers": told},
        f"Revoked the key of {name}.",
        _in_force(told),
    )


@examples("bullpen auth rotate web-1")
def rotate(
    session: Session,
    name: KeyName,
    *,
    tenant: Tenant = None,
    where: Where = None,
) -> None:
    """Replace a key and revoke the old one.

    The new key has the same rights.
    """
    vault = _vault(session, where)
    key, path = vault.rotate(tenant, name)
    told = _told(session, vault)
    session.page.result(
        "auth-key/1",
        {**_value(key), "path": str(path), "servers": told},
        str(path),
        _in_force(told),
    )


@examples("bullpen auth upgrade", "bullpen auth upgrade --finish")
def upgrade(
    session: Session,
    *,
    finish: Annotated[bool, flag("Revoke the older keys", "--finish")] = False,
    tenant: Tenant = None,
    where: Where = None,
) -> None:
    """Replace the keys of an earlier version.

    Until version 1, keys shared the account of the streams, and a hostile one could delete them.
    Run it, give every host and person the new file, then run it with --finish: older keys are then
    refused. Teams of keys for certain teams get streams of their own while their members work.
    """
    vault = _vault(session, where)
    if finish:
        ended = vault.finish_upgrade(tenant)
        told = _told(session, vault)
        session.page.result(
            "auth-upgrade-finished/1",
            {"revoked": [key.name for key in ended], "servers": told},
            f"Revoked {len(ended)} older keys.",
            _in_force(told),
        )
        return
    made = vault.upgrade(tenant)
    told = _told(session, vault)
    session.page.result(
        "auth-upgraded/1",
        {"keys": [{**_value(key), "path": str(path)} for key, path in made], "servers": told},
        *(str(path) for _, path in made),
        _in_force(told),
    )


@examples("bullpen auth push", "bullpen auth push --store nats://a:4222")
def push(session: Session, *, where: Where = None) -> None:
    """Send tenants, roles and revocations to servers."""
    vault = _vault(session, where)
    vault.sign_again()
    told = _told(session, vault)
    if told is None:
        raise Invalid(
            "No servers are named.",
            remedy="Pass --store nats://HOST:4222 or set BULLPEN_STORE.",
        )
    session.page.result("auth-pushed/1", {"servers": told}, _in_force(told))


@examples(
    "bullpen auth config --resolver /var/lib/nats/accounts",
    "bullpen auth config --resolver /var/lib/nats/accounts > auth.conf",
)
def config(
    session: Session,
    *,
    resolver: Annotated[str, option("Folder on the server for the accounts", "DIR")],
    where: Where = None,
) -> None:
    """Print the server configuration for these keys.

    Contains no secrets. Save it in a file that the server's configuration includes.
    """

    text = include_text(_vault(session, where).directory, resolver=Path(resolver))
    if session.json:
        session.page.value("auth-config/1", {"config": text})
    else:
        session.page.block(text.rstrip("\n"))


@examples("bullpen auth tls --host localhost", "bullpen auth tls --host a.lan --host b.lan")
def tls(
    session: Session,
    *,
    hosts: Annotated[
        list[str], option("Name or address of a server [repeatable]", "NAME", "--host")
    ],
    where: Where = None,
) -> None:
    """Create development certificates for servers.

    Clients name the authority's certificate in BULLPEN_CA. In production, use certificates of a
    real authority.
    """

    folder = _vault(session, where).directory
    made = [issue(folder, host) for host in map(check_host, hosts)]
    session.page.result(
        "auth-certificates/1",
        {
            "ca": str(made[0].ca),
            "servers": [
                {"host": host, "certificate": str(each.certificate), "key": str(each.key)}
                for host, each in zip(hosts, made, strict=True)
            ],
        },
        f"Certificate authority, for BULLPEN_CA: {made[0].ca}",
        *(str(each.certificate) for each in made),
    )


def _vault(session: Session, where: str | None) -> Vault:
    return Vault(Path(directory(where)) if where else session.settings.home / "auth")


def _told(session: Session, vault: Vault) -> list[str] | None:
    """The servers that were told; None if --store and the environment name none."""
    url, ca = session.settings.store, session.settings.ca
    if url is None or not url.startswith(("nats://", "tls://")):
        return None

    async def tell() -> list[str]:
        return [*(await push_to_servers(vault, url, ca=ca)).servers]

    try:
        return anyio.run(tell)
    except Unavailable as error:
        raise Unavailable(
            f"{vault.directory} was changed, but not every server was told: {error.message}",
            remedy="Run this when the servers can be reached: bullpen auth push",
        ) from error


def _in_force(told: list[str] | None) -> str:
    if told is None:
        return "The servers do not know this yet. Run: bullpen auth push"
    return f"In force on {len(told)} {'server' if len(told) == 1 else 'servers'}."


def _value(key: Key) -> dict[str, Any]:
    value: dict[str, Any] = as_json(key)
    return value


def _day(seconds: int) -> str:
    return iso(seconds * 1000)[:16].replace("T", " ")
