"""Claims of operators, accounts and users, as the bodies of signed tokens. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bullpen.fleet.auth import roles
from bullpen.fleet.auth.roles import Role

_VERSION = 2
_NO_LIMITS = {
    "subs": -1,
    "data": -1,
    "payload": -1,
    "imports": -1,
    "exports": -1,
    "wildcards": True,
    "conn": -1,
    "leaf": -1,
}
_STREAMS = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}
_UNLIMITED_USER = {"subs": -1, "data": -1, "payload": -1}

READERS_SHARE: tuple[tuple[str, str], ...] = (
    ("$JS.API.DIRECT.GET.>", "service"),
    ("w.>", "stream"),
)
"""What the readers' account gets from its tenant: stored data and news."""

PUSH_NAME = "push"
_PUSHES = (
    "$SYS.REQ.CLAIMS.UPDATE",
    "$SYS.REQ.CLAIMS.DELETE",
    "$SYS.REQ.CLAIMS.LIST",
    "$SYS.REQ.SERVER.PING",
)


def operator(public: str, *, system: str, now_s: int) -> dict[str, Any]:
    """Return the operator, who signs accounts."""
    return _body(public, "bullpen", now_s, {"type": "operator", "system_account": system})


def system_account(public: str, *, signer: str, now_s: int) -> dict[str, Any]:
    """Return the account in which servers are told about other accounts."""
    return _body(public, "SYS", now_s, _account({}, [signer], {}))


def tenant_account(
    public: str,
    name: str,
    *,
    admin_signer: str,
    signers: Mapping[tuple[Role, bool], str],
    revoked: Mapping[str, int],
    now_s: int,
) -> dict[str, Any]:
    """Return the account of a tenant, which has the streams. `signers` are by role and binding."""
    keys = [admin_signer, *_scopes(signers)]
    shared = [
        {
            "name": subject,
            "subject": subject,
            "type": kind,
            # A batch is many messages in answer to one.
            **({"response_type": "Stream"} if kind == "service" else {}),
        }
        for subject, kind in READERS_SHARE
    ]
    return _body(public, name, now_s, {**_account(_STREAMS, keys, revoked), "exports": shared})


def readers_account(
    public: str,
    name: str,
    *,
    tenant: str,
    signers: Mapping[tuple[Role, bool], str],
    revoked: Mapping[str, int],
    now_s: int,
) -> dict[str, Any]:
    """Return the account of a tenant's readers. Nothing that writes is imported into it."""
    taken = [
        {"name": subject, "subject": subject, "account": tenant, "type": kind}
        for subject, kind in READERS_SHARE
    ]
    held = {**_account({}, _scopes(signers), revoked), "imports": taken}
    return _body(public, f"{name}-readers", now_s, held)


def removed_accounts(
    operator_public: str, accounts: Sequence[str], *, now_s: int
) -> dict[str, Any]:
    """Return the order to forget accounts."""
    return _body(operator_public, "remove", now_s, {"type": "generic", "accounts": [*accounts]})


def user(
    public: str,
    name: str,
    *,
    role: Role,
    account: str,
    teams: Sequence[str] = (),
    expires_s: int | None = None,
    now_s: int,
) -> dict[str, Any]:
    """Return a user with the rights of the signing key; an administrator may do everything.

    `teams` are tokens. The tag with the role gives no right: it only tells the holder what is
    useless to try.
    """
    tags = [f"{roles.ROLE_TAG}{role}", *(f"{roles.TEAM_TAG}{team}" for team in teams)]
    body = _body(public, name, now_s, {"type": "user", "issuer_account": account, "tags": tags})
    if role is Role.ADMIN:
        body["nats"].update(_UNLIMITED_USER, pub={}, sub={})
    return body if expires_s is None else {**body, "exp": expires_s}


def push_user(public: str, *, account: str, now_s: int) -> dict[str, Any]:
    """Return the user that tells servers about accounts, and can do nothing else."""
    body = user(public, PUSH_NAME, role=Role.ADMIN, account=account, now_s=now_s)
    inbox = roles.INBOX.replace(roles.NAME, PUSH_NAME)
    body["nats"].update(pub={"allow": [*_PUSHES]}, sub={"allow": [inbox]})
    return body


def _account(
    limits: Mapping[str, int], keys: Sequence[object], revoked: Mapping[str, int]
) -> dict[str, Any]:
    return {
        "type": "account",
        "limits": {**_NO_LIMITS, **limits},
        "signing_keys": [*keys],
        "revocations": dict(revoked),
        "default_permissions": {"pub": {}, "sub": {}},
    }


def scope_name(role: Role, bound: bool) -> str:
    """Return the name of a role's signing key, for keys that are bound to teams or not."""
    return f"{role}-of-teams" if bound else str(role)


def _scopes(signers: Mapping[tuple[Role, bool], str]) -> list[object]:
    return [
        {
            "kind": "user_scope",
            "key": public,
            "role": scope_name(role, bound),
            "template": roles.template(
                (roles.FOR_OWN_TEAMS if bound else roles.FOR_ALL_TEAMS)[role]
            ),
        }
        for (role, bound), public in signers.items()
    ]


def _body(public: str, name: str, now_s: int, held: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "sub": public,
        "name": name,
        "iat": now_s,
        "nats": {"version": _VERSION, **held},
    }
