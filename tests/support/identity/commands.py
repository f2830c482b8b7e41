"""Who may type which command: written by hand. And what is typed."""

from __future__ import annotations

from collections.abc import Mapping

from .cast import RECEIVER, Identity
from .expected import ALLOWED, Right

PEOPLE_ONLY = frozenset(
    {
        *(
            "run",
            "up",
            "init",
            "demo",
            "review",
            "replay",
            "acp",
            "tui",
            "web",
            "logs",
            "report",
            "attach",
            "doctor",
            "join",
        ),
        *("down", "trust", "telemetry", "bridge", "mcp", "docs"),
        *("eval run", "eval report", "eval make", "eval import"),
        *("config list", "config get", "config set", "config edit", "config path"),
        *("team create", "team resume", "team delete", "team move", "team mirror"),
        *("task give-up", "task retry", "merge run"),
        *("forge login", "forge check", "forge status", "forge sync", "forge resume"),
        "forge hook",
        *("forge set", "forge unset", "notes edit"),
        *("workspace save", "workspace restore", "workspace remove"),
        *("mcp install", "mcp uninstall", "mcp token", "mcp tokens", "mcp revoke", "mcp login"),
        *("server start", "server prepare", "server stop", "server status", "server check"),
        *("server config", "server backup", "server restore"),
        *("auth tenant add", "auth tenant list", "auth tenant remove", "auth init", "auth mint"),
        *(
            "auth list",
            "auth revoke",
            "auth rotate",
            "auth push",
            "auth config",
            "auth tls",
            "auth upgrade",
        ),
        *("host run", "host forget"),
    }
)
"""Commands that refuse agents before they do anything."""

ARGUMENTS: Mapping[str, str] = {
    "mcp install": "claude",
    "mcp uninstall": "claude",
    "auth mint": "human x",
    "config set": "theme nord",
    "eval import": "harbor tasks",
}
"""What these need to be understood. Where any word does, it is made up."""

READS: Mapping[str, str] = {
    "ps": "ps",
    "cost": "cost",
    "events": "events",
    "summary": "summary",
    "requests": "requests",
    "inbox": "inbox",
    "schema": "schema",
    "team list": "team list",
    "team show": "team show",
    "team limits": "team limits",
    "member list": "member list",
    "notes list": "notes list",
    "notes show": "notes show goals",
    "notes history": "notes history goals",
    "notes diff": "notes diff goals",
    "promises list": "promises list",
    "task list": "task list",
    "task show": "task show {owned}",
    "task graph": "task graph",
    "task budget": "task budget {owned}",
    "workspace list": "workspace list",
    "merge list": "merge list",
    "merge log": "merge log",
    "merge set": "merge set",
    "policy show": "policy show olga",
    "mode: the current one": "mode olga",
}
"""Commands that only read, and what is typed."""

_ORDER = """{{"type":"bullpen_control","action":"stop","from":"team-lead"}}"""

CHANGES: Mapping[str, tuple[str, Right]] = {
    "approve": ("approve {asked}", "lead"),
    "approve: what a person was asked": ("approve {asked_person}", "person"),
    "deny": ("deny {asked}", "lead"),
    "send": (f"send {RECEIVER} Hello.", "member"),
    "send: an order": (f"send olga {_ORDER}", "parent"),
    "inbox: of the owner": ("inbox olga", "reader"),
    "stop": ("stop olga --grace 0", "parent"),
    "stop: all": ("stop --all --grace 0", "lead"),
    "team limits: change": ("team limits --turns 9", "person"),
    "mode": ("mode olga plan", "lead"),
    "interrupt": ("interrupt olga", "parent"),
    "member add": ("member add new", "lead"),
    "member remove": ("member remove olga", "parent"),
    "task add": ("task add New", "member"),
    "notes write": ("notes write plan Text", "member"),
    "promises make": ("promises make {owned} Mine --path c.py", "owner"),
    "promises rely": ("promises rely {free}.1 {owned}", "owner"),
    "promises drop": ("promises drop {free}.1 {owned}", "owner"),
    "promises withdraw": ("promises withdraw {owned}.1", "owner"),
    "task claim": ("task claim {free}", "member"),
    "task done": ("task done {owned}", "owner"),
    "task release": ("task release {owned}", "owner"),
    "task assign": (f"task assign {{assigned}} {RECEIVER}", "owner"),
    "task depend": ("task depend {free} {owned}", "member"),
    "task undepend": ("task undepend {free} {owned}", "member"),
    "task delete": ("task delete {owned}", "owner"),
    "task edit": ("task edit {free} --subject Newer", "member"),
    "task check": ("task check {owned}", "owner"),
    "task budget: change": ("task budget {owned} --turns 3", "person"),
}
"""Commands that change a team: what is typed, and who may."""

ELSEWHERE: Mapping[str, str] = {
    "spawn": "starts a process: tests/contract/backend and test_nobody_else.py",
    "agent run": "is what starts the process of an agent",
    "drivers": "asks every program on this machine for its version, and reads no team",
    "hosts": "needs servers",
    "workspace show": "runs git, and changes no team",
    "workspace saved": "runs git, and changes no team",
    "policy check": "decides about a call, and reads no more than `policy show`",
}
"""Commands of which no row is here, and why."""

TYPISTS = (
    Identity.PERSON,
    Identity.LEAD,
    Identity.OWNER,
    Identity.PARENT,
    Identity.CHILD,
    Identity.TEAMMATE,
    Identity.ORPHAN,
    Identity.OTHER_TEAM,
)


def may_type(right: Right, identity: Identity) -> bool:
    """Whether somebody may; an orphan is still a process of the teammate."""
    if identity is Identity.ORPHAN:
        identity = Identity.TEAMMATE
    return identity in ALLOWED[right]
