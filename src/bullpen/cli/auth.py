"""`bullpen auth`: who may do what on the NATS servers of teams that span machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bullpen.cli.command import Noun, command
from bullpen.cli.people import refuse_agents
from bullpen.cli.session import Session, directory
from bullpen.errors import Invalid, Unavailable

if TYPE_CHECKING:
    from bullpen.fleet.auth.records import Key
    from bullpen.fleet.auth.vault import Vault

noun = Noun(
    "Keys for NATS servers: who may do what, in which teams.\n\n"
    "A tenant has teams that no other tenant can see. Its hosts, people and readers each have a"
    " key of their own, in a file that goes to where it is used; BULLPEN_CREDS names it there.",
    examples=(
        "bullpen auth init --tenant acme",
        "bullpen auth mint host web-1 --expires 90d",
        "bullpen auth mint human ann --for alpha",
        "bullpen auth revoke web-1",
        "bullpen auth push",
    ),
)
tenants = Noun(
    "The tenants of an operator.",
    examples=("bullpen auth tenant add acme", "bullpen auth tenant list"),
)
noun.commands.add_typer(tenants.app, name="tenant")

Where = Annotated[
    str | None,
    typer.Option(
        "--dir",
        metavar="DIR",
        help="The folder with the keys. [default: auth in the home]",
        show_default=False,
    ),
]
Tenant = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The tenant. [default: the only one]", show_default=False),
]
TenantName = Annotated[str, typer.Argument(metavar="NAME", help="The name of the tenant.")]
KeyName = Annotated[
    str, typer.Argument(metavar="NAME", help="The name of the host or person that the key is for.")
]


@command(
    noun.commands,
    "init",
    examples=("bullpen auth init --tenant acme", "bullpen auth init --dir ./keys --tenant acme"),
)
def init(
    session: Session,
    *,
    tenant: Annotated[str, typer.Option(metavar="NAME", help="The first tenant.")],
    where: Where = None,
) -> None:
    """Make an operator and a first tenant with an administrator.

    The operator's seed is in operator.seed. Only tenants and revocations need it, so it can be
    kept elsewhere at other times.
    """
    refuse_agents("make keys")
    from bullpen.fleet.auth.records import check_name

    vault = _vault(session, where)
    check_name(tenant, kind="tenant")
    vault.create()
    creds = vault.add_tenant(tenant)
    session.page.result(
        {"directory": str(vault.directory), "tenant": tenant, "admin": str(creds)},
        f"Made {vault.directory} with tenant {tenant}.",
        f"Its administrator's credentials: {creds}",
        "Keep operator.seed where nobody else gets it.",
    )


@command(tenants.commands, "add", examples=("bullpen auth tenant add acme",))
def add_tenant(session: Session, name: TenantName, *, where: Where = None) -> None:
    """Add a tenant with an administrator."""
    refuse_agents("make keys")
    vault = _vault(session, where)
    creds = vault.add_tenant(name)
    told = _told(session, vault)
    session.page.result(
        {"tenant": name, "admin": str(creds), "servers": told},
        f"Added tenant {name}.",
        f"Its administrator's credentials: {creds}",
        _in_force(told),
    )


@command(tenants.commands, "list", examples=("bullpen auth tenant list",))
def list_tenants(session: Session, *, where: Where = None) -> None:
    """List the tenants."""
    names = _vault(session, where).tenants()
    session.page.result([{"tenant": name} for name in names], *(names or ["There are no tenants."]))


@command(tenants.commands, "remove", examples=("bullpen auth tenant remove acme --yes",))
def remove_tenant(
    session: Session,
    name: TenantName,
    *,
    where: Where = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Let no key of a tenant count any more. Its streams stay on the servers."""
    refuse_agents("remove tenants")
    vault = _vault(session, where)
    vault.tenant(name)
    session.confirm(f"Lock everybody out of tenant {name}?", yes=yes)
    vault.remove_tenant(name)
    told = _told(session, vault)
    session.page.result(
        {"tenant": name, "removed": True, "servers": told},
        f"Removed tenant {name}.",
        _in_force(told),
    )


@command(
    noun.commands,
    "mint",
    examples=(
        "bullpen auth mint host web-1 --expires 90d",
        "bullpen auth mint host guest-1 --for alpha --for beta",
        "bullpen auth mint human ann",
        "bullpen auth mint read-only wall-screen --for alpha",
    ),
)
def mint(
    session: Session,
    role: Annotated[
        Literal["host", "human", "read-only", "admin"],
        typer.Argument(metavar="ROLE", help="What it is for: host, human, read-only or admin."),
    ],
    name: KeyName,
    *,
    teams: Annotated[
        list[str] | None,
        typer.Option(
            "--for",
            metavar="TEAM",
            help="Bind it to this team; can be given again. [default: the one of --team; else"
            " all teams of the tenant]",
            show_default=False,
        ),
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(
            metavar="SPAN", help="How long it counts: 30d, 12h, 90m. [default: until revoked]"
        ),
    ] = None,
    tenant: Tenant = None,
    where: Where = None,
) -> None:
    """Make a key, and say in which file it is.

    A host runs agents. A human reads, writes and asks hosts for agents. Who is read-only changes
    nothing. Bound to teams, a key is for these only, and neither asks for agents nor is given
    requests for them. An admin can do everything in its tenant.

    A bound key stops mistakes and curiosity. From somebody hostile only another tenant protects.
    """
    refuse_agents("make keys")
    from bullpen.fleet.auth.records import seconds_of
    from bullpen.fleet.auth.roles import Role

    named = session.settings.team if session.settings.team_source == "option" else None
    bound = tuple(teams or ([named] if named else ()))
    lasts_s = None if expires is None else seconds_of(expires)
    key, path = _vault(session, where).mint(tenant, name, Role(role), teams=bound, lasts_s=lasts_s)
    session.page.result({**_value(key), "path": str(path)}, str(path))


@command(noun.commands, "list", examples=("bullpen auth list", "bullpen auth list --json"))
def list_keys(session: Session, *, tenant: Tenant = None, where: Where = None) -> None:
    """List the keys of a tenant: for whom, what for, until when."""
    import time

    keys = _vault(session, where).tenant(tenant).keys
    if session.json:
        session.page.value([_value(key) for key in keys])
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


@command(noun.commands, "revoke", examples=("bullpen auth revoke web-1",))
def revoke(
    session: Session,
    name: KeyName,
    *,
    tenant: Tenant = None,
    where: Where = None,
) -> None:
    """Let a key count no more. Servers that are told cut off whoever uses it."""
    refuse_agents("revoke keys")
    vault = _vault(session, where)
    key = vault.revoke(tenant, name)
    told = _told(session, vault)
    session.page.result(
        {**_value(key), "servers": told}, f"Revoked the key of {name}.", _in_force(told)
    )


@command(noun.commands, "rotate", examples=("bullpen auth rotate web-1",))
def rotate(
    session: Session,
    name: KeyName,
    *,
    tenant: Tenant = None,
    where: Where = None,
) -> None:
    """Make a key anew with the same rights, and let the old one count no more."""
    refuse_agents("make keys")
    vault = _vault(session, where)
    key, path = vault.rotate(tenant, name)
    told = _told(session, vault)
    session.page.result(
        {**_value(key), "path": str(path), "servers": told}, str(path), _in_force(told)
    )


@command(
    noun.commands,
    "push",
    examples=("bullpen auth push", "bullpen auth push --store nats://a:4222"),
)
def push(session: Session, *, where: Where = None) -> None:
    """Tell running servers what counts: tenants, roles, revocations."""
    refuse_agents("tell servers which keys count")
    vault = _vault(session, where)
    vault.sign_again()
    told = _told(session, vault)
    if told is None:
        raise Invalid(
            "It is not known which servers to tell.",
            remedy="Name them: --store nats://HOST:4222, or in BULLPEN_STORE.",
        )
    session.page.result({"servers": told}, _in_force(told))


@command(
    noun.commands,
    "config",
    examples=(
        "bullpen auth config --resolver /var/lib/nats/accounts",
        "bullpen auth config --resolver /var/lib/nats/accounts > auth.conf",
    ),
)
def config(
    session: Session,
    *,
    resolver: Annotated[
        str,
        typer.Option(
            metavar="DIR", help="A folder on the server in which it keeps the accounts it knows."
        ),
    ],
    where: Where = None,
) -> None:
    """Show what the configuration of a server needs so that it takes these keys.

    It holds no secrets. Put it into a file that the configuration includes.
    """
    from pathlib import Path

    from bullpen.fleet.auth.resolver import include_text

    text = include_text(_vault(session, where).directory, resolver=Path(resolver))
    if session.json:
        session.page.value({"config": text})
    else:
        session.page.block(text.rstrip("\n"))


@command(
    noun.commands,
    "tls",
    examples=("bullpen auth tls --host localhost", "bullpen auth tls --host a.lan --host b.lan"),
)
def tls(
    session: Session,
    *,
    hosts: Annotated[
        list[str],
        typer.Option("--host", metavar="NAME", help="A server's name or address; can be repeated."),
    ],
    where: Where = None,
) -> None:
    """Make certificates of servers for development.

    Clients name the authority's certificate in BULLPEN_CA. Real servers should have certificates
    of a real authority.
    """
    refuse_agents("make certificates")
    from bullpen.fleet.auth.tls import check_host, issue

    folder = _vault(session, where).directory
    made = [issue(folder, host) for host in map(check_host, hosts)]
    session.page.result(
        {
            "ca": str(made[0].ca),
            "servers": [
                {"host": host, "certificate": str(each.certificate), "key": str(each.key)}
                for host, each in zip(hosts, made, strict=True)
            ],
        },
        f"The authority, for BULLPEN_CA: {made[0].ca}",
        *(str(each.certificate) for each in made),
    )


def _vault(session: Session, where: str | None) -> Vault:
    from pathlib import Path

    from bullpen.fleet.auth.vault import Vault

    return Vault(Path(directory(where)) if where else session.settings.home / "auth")


def _told(session: Session, vault: Vault) -> list[str] | None:
    """The servers that know now; None if --store and the environment name none."""
    url, ca = session.settings.store, session.settings.ca
    if url is None or not url.startswith(("nats://", "tls://")):
        return None
    import anyio

    from bullpen.fleet.auth.resolver import push

    async def tell() -> list[str]:
        return [*(await push(vault, url, ca=ca)).servers]

    try:
        return anyio.run(tell)
    except Unavailable as error:
        raise Unavailable(
            f"It is so in {vault.directory}, but not every server knows: {error.message}",
            remedy="Tell them as soon as they can be reached: bullpen auth push",
        ) from error


def _in_force(told: list[str] | None) -> str:
    if told is None:
        return "Servers do not know it yet: bullpen auth push"
    return f"In force on {len(told)} {'server' if len(told) == 1 else 'servers'}."


def _value(key: Key) -> dict[str, Any]:
    return {
        "name": key.name,
        "role": str(key.role),
        "teams": list(key.teams),
        "public": key.public,
        "issued_s": key.issued_s,
        "expires_s": key.expires_s,
        "revoked_s": key.revoked_s,
    }


def _day(seconds: int) -> str:
    from bullpen.protocol.times import iso

    return iso(seconds * 1000)[:16].replace("T", " ")
