"""Every door takes the name in which it acts from ActingIdentity."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import bullpen.doors

DOORS = Path(bullpen.doors.__file__).parent
SOURCES = frozenset(("speaks", "acts", "stops", "spawns", "founds", "reads_mail_of"))
NAMED = frozenset(("by", "sender"))
BOXES = frozenset(("read", "follow", "mark"))

EXCEPTIONS = {
    ("cli/tasks/cost.py", "by"): "how a table is grouped, not who acts",
    ("actions/task_by_hand.py", "self.by"): "TaskCommands are made with the name of an identity",
    ("cli/tasks/task_proof.py", "door.by"): "TaskCommands are made with the name of an identity",
    ("acp/team_run.py", "LEAD"): "it drops only a lease that its own process holds",
    ("cli/options/checks.py", "driver"): "the driver of a reviewer, not who acts",
    ("mcp/member.py", "self.member"): "a member of the MCP door proved itself by its token",
    ("mcp/member.py", "LEAD"): "a program that founds a team is its lead",
    ("mcp/colleagues.py", "self._agent"): "a member of the MCP door proved itself by its token",
    ("mcp/desk.py", "self.agent"): "a member of the MCP door proved itself by its token",
    ("mcp/resources.py", "desk.agent"): "a member of the MCP door proved itself by its token",
    ("mcp/plugins/hooks.py", "member"): "its server is a child of the program that runs the hook",
    (
        "tui/member/member_texts.py",
        "_sender(look, each, name)",
    ): "who a screen says wrote it",
    ("tui/member/member_view.py", "'you'"): "who a screen says wrote it",
    ("mcp/change_notices.py", "self._desk.agent"): "as above: the desk of a member",
}
"""Where the name comes from elsewhere, and why that is right."""


def _given(call: ast.Call) -> Iterator[ast.expr]:
    """The names in which a call acts, and the mailboxes that it reads or marks."""
    yield from (word.value for word in call.keywords if word.arg in NAMED)
    called = call.func
    if isinstance(called, ast.Attribute) and called.attr in BOXES and call.args:
        owner = called.value
        if isinstance(owner, ast.Attribute) and owner.attr == "mailbox":
            yield call.args[0]


def _from_identity(value: ast.expr) -> bool:
    if isinstance(value, ast.Await):
        value = value.value
    if isinstance(value, ast.Subscript):
        return _from_identity(value.value)
    called = value.func if isinstance(value, ast.Call) else None
    return isinstance(called, ast.Attribute) and called.attr in SOURCES


def _proven(scope: ast.AST) -> set[str]:
    """The variables of a function that hold the name of an identity, or that its caller gives."""
    found: set[str] = set()
    if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
        # The call that gives `by` is looked at where it is made.
        words = [*scope.args.args, *scope.args.kwonlyargs]
        found |= {word.arg for word in words if word.arg in NAMED | {"owner"}}
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign) and _from_identity(node.value):
            for target in node.targets:
                names = target.elts if isinstance(target, ast.Tuple) else [target]
                found |= {each.id for each in names if isinstance(each, ast.Name)}
        # `session.as_actor` calls its function with the name of the identity.
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "as_actor":
            for given in node.args:
                if isinstance(given, ast.Lambda):
                    found.add(given.args.args[1].arg)
    return found


def unproven(source: str, where: str) -> list[str]:
    """The calls of a module that act in a name that comes from nowhere."""
    wrong = []
    tree = ast.parse(source)
    functions = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        around = [
            each for each in functions if each.lineno <= call.lineno <= (each.end_lineno or 0)
        ]
        proven = set().union(*(_proven(each) for each in around)) if around else set()
        for value in _given(call):
            text = ast.unparse(value)
            if text not in proven and (where, text) not in EXCEPTIONS:
                wrong.append(f"{where}:{call.lineno}: {text}")
    return wrong


def test_no_door_acts_in_a_name_that_the_system_did_not_give() -> None:
    wrong = [
        line
        for path in sorted(DOORS.rglob("*.py"))
        for line in unproven(path.read_text("utf-8"), path.relative_to(DOORS).as_posix())
    ]
    assert wrong == []


def test_a_planted_name_is_found() -> None:
    planted = """
async def run(session, team):
    by = session.settings.agent
    await team.tasks.claim("1", by=by)
    await team.mailbox.send("bob", "x", sender=session.settings.agent)
    await team.mailbox.read(session.name)
    who, voice = await session.identity.speaks(team)
    await team.tasks.claim("1", by=who)
    await team.mailbox.mark(who, [], "seen")
    session.as_actor(lambda team, me: team.tasks.retry("1", by=me))
"""
    found = unproven(planted, "planted.py")
    assert [line.rpartition(": ")[2] for line in found] == [
        "by",
        "session.settings.agent",
        "session.name",
    ]


def test_every_exception_is_still_needed() -> None:
    text = {where: (DOORS / where).read_text("utf-8") for where, _ in EXCEPTIONS}
    quoted = {where: each.replace('"', "'") for where, each in text.items()}
    assert [key for key in EXCEPTIONS if key[1] not in quoted[key[0]]] == []
