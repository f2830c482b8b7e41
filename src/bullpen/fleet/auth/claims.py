"""Claims of operators, accounts and users, as the bodies of signed tokens. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bullpen.fleet.auth import roles
from bullpen.fleet.auth.roles import Role, RoleRights

_VERSION = 2
_BATCH_WITHIN_NS = 30 * 1_000_000_000
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
# A batch is many messages in answer to one. A server remembers whom they go to for two minutes
# unless told otherwise, which makes it slower the more it is asked.
_MANY_ANSWERS = {"response_type": "Stream", "response_threshold": _BATCH_WITHIN_NS}
_UNLIMITED_USER = {"subs": -1, "data": -1, "payload": -1}

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
    older: Sequence[object] = (),
    revoked: Mapping[str, int],
    now_s: int,
) -> dict[str, Any]:
    """Return the account of a tenant, which has the streams and only the administrator.

    `older` are the signing keys of an earlier version that still count.
    """
    exports = [
        {
            "name": subject,
            "subject": subject,
            "type": "service",
            **(_MANY_ANSWERS if many else {}),
        }
        for subject, many in roles.EXPORTED_SERVICES.items()
    ]
    exports += [
        {"name": subject, "subject": subject, "type": "stream"} for subject in roles.EXPORTED_NEWS
    ]
    held = _account(_STREAMS, [admin_signer, *older], revoked)
    return _body(public, name, now_s, {**held, "exports": exports})


def also_starts(scope: dict[str, Any]) -> dict[str, Any]:
    """Return an earlier version's signing key of hosts or people, with today's queue of starts."""
    allowed = scope["template"]["pub"]["allow"]
    asks = ["start.*.*"] if "spawn.*" in allowed else []
    takes = ["took.*.*"] if "$JS.ACK.SPAWN.>" in allowed else []
    more = [each for each in (*asks, *takes) if each not in allowed]
    pub = {**scope["template"]["pub"], "allow": [*allowed, *more]}
    return {**scope, "template": {**scope["template"], "pub": pub}}


def key_account(
    public: str,
    key: str,
    *,
    tenant: str,
    tenant_account: str,
    signer: str,
    held: RoleRights | None,
    revoked: Mapping[str, int],
    now_s: int,
) -> dict[str, Any]:
    """Return the account of one key. It imports what the key may do; without rights, nothing."""
    name = f"{tenant}-{key}"
    if held is None:
        return _body(public, name, now_s, _account({}, [], revoked))
    scope = {
        "kind": "user_scope",
        "key": signer,
        "role": key,
        "template": roles.template(held, key),
    }
    imports = [
        {"name": subject, "subject": subject, "account": tenant_account, "type": kind}
        for subjects, kind in ((held.publish, "service"), (held.hear, "stream"))
        for subject in subjects
    ]
    return _body(public, name, now_s, {**_account({}, [scope], revoked), "imports": imports})


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

    `teams` are tokens. Tags give no rights: they tell the holder what is useless to try.
    """
    tags = [f"{roles.ROLE_TAG}{role}", *(f"{roles.TEAM_TAG}{team}" for team in teams)]
    body = _body(public, name, now_s, {"type": "user", "issuer_account": account, "tags": tags})
    if role is Role.ADMIN:
        body["nats"].update(_UNLIMITED_USER, pub={}, sub={})
    return body if expires_s is None else {**body, "exp": expires_s}


def push_user(public: str, *, account: str, now_s: int) -> dict[str, Any]:
    """Return the user that tells servers about accounts, and can do nothing else."""
    body = user(public, PUSH_NAME, role=Role.ADMIN, account=account, now_s=now_s)
    inbox = roles.inbox(PUSH_NAME)
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


def _body(public: str, name: str, now_s: int, held: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "sub": public,
        "name": name,
        "iat": now_s,
        "nats": {"version": _VERSION, **held},
    }
