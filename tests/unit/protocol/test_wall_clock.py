"""Durations are on the monotonic clock: who compares wall clocks has a reason, written here.

A wall clock is set, and goes on while a machine sleeps. So no code may subtract two of its times,
or compare them, to find out how long something took or whether something is over.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import bullpen

SOURCE = Path(bullpen.__file__).parent

_SHOWN = "how old something is, for people to read"
_RECORD = "a limit over several processes and machines: its records have only wall times"
_FILE = "compared with the time of a file, which is a wall time"
_GIVEN = "the clock that it is given is monotonic"
_LINK = "a link says until when it is good, also after a restart"
_TRANSLATED = "a wall time of a record, translated to the monotonic clock"

ALLOWED = {
    "agents/backends/handover.py::_sweep": _FILE,
    "agents/backends/warm_start/starter.py::_check_not_hopeless": _FILE,
    "agents/backends/warm_start/starter.py::_sweep": _FILE,
    "agents/drivers/acp/driver.py::Acp._let_the_minute_pass": "the program names files by minutes",
    "agents/drivers/claude_code/team_copy.py::_locked": _FILE,
    "agents/runner/lead_lease.py::LeadHold.take": "only to see whether the clocks agree",
    "agents/tapes/agent_tape.py::AgentTape.now": "the processes of a run share only this clock",
    "agents/tools/team_tools.py::_member": _SHOWN,
    "doors/acp/sessions.py::Sessions._refuse_running": "whether the holder lives is known before",
    "doors/cli/machines/host.py::hosts": _SHOWN,
    "doors/mcp/plugins/hooks.py::_forget_old": _FILE,
    "doors/report/run_facts.py::Run.clock": _SHOWN,
    "doors/tui/prompt/ask_bar.py::AskBar._left": _SHOWN,
    "doors/web/phone/answer_limits.py::Tries.too_many": "a clock set back only forgets later",
    "fleet/host/agent_operations.py::AgentOperations.__call__": "names a call; nothing waits",
    "fleet/mirror/keep_mirrored.py::Running._show": _SHOWN,
    "protocol/presence.py::Presence.alive": "shown; whoever judges counts from the receipt",
    "runs/forge/clients/github_connection.py::_seconds_until": _TRANSLATED,
    "runs/forge/looking/looks.py::Looks._left": _GIVEN,
    "runs/forge/looking/issue_looks.py::IssueLooks._open_others": _GIVEN,
    "runs/forge/looking/looks.py::Looks._is_heard_out": _GIVEN,
    "runs/forge/looking/looks.py::Looks._is_unchanged": _GIVEN,
    "runs/forge/outbox.py::Outbox._may_merge": "what is not recent is decided anew",
    "runs/forge/worker.py::ForgeWorker._ask_for_tests": _GIVEN,
    "runs/forge/worker.py::ForgeWorker._until_hinted": _GIVEN,
    "runs/forge/worker.py::ForgeWorker._waits": _GIVEN,
    "runs/forge/worker.py::ForgeWorker.more": _GIVEN,
    "runs/forge/worker.py::ForgeWorker.step": _GIVEN,
    "runs/guests.py::_described": _SHOWN,
    "runs/reach/answer_keys.py::UsedLinks.forget": _LINK,
    "runs/reach/answer_links.py::flaw_of": _LINK,
    "runs/reach/due_rules.py::due": _RECORD,
    "runs/watch/team_run.py::TeamRun._is_over": "--until 07:00 is a time of day",
    "runs/watch/until.py::Until.left_s": _TRANSLATED,
    "store/files/doctor/checkup.py::_locks": _FILE,
    "store/files/doctor/checkup.py::leftovers": _FILE,
    "store/files/locks.py::break_if_dead": _FILE,
    "store/files/log/retention.py::_due": "history is kept for days",
    "store/files/mail/read_cache.py::ReadCache.read": _FILE,
    "store/files/mail/read_mail.py::_touched_just_now": _FILE,
    "store/files/notes.py::read_file": _FILE,
    "store/files/records.py::Records._read": _FILE,
    "store/files/records.py::look_at": _FILE,
    "store/nats/client/connection.py::NatsConnection._refuse_ended": "when a key ends is a date",
    "store/nats/log/retention.py::HistoryTrim._due": "history is kept for days",
    "team/agents/liveness.py::Deadlines.has_passed": _TRANSLATED,
    "team/agents/liveness.py::GapWatch.look": "this is how a jump is found",
    "team/agents/rules.py::_recent": _RECORD,
    "team/agents/rules.py::check_spawn": _RECORD,
    "team/agents/rules.py::take_lead": "whether the holder lives is known before",
    "team/budget/cost.py::_passed": _RECORD,
    "team/budget/rules.py::_of_agent": _RECORD,
    "team/budget/rules.py::began_ms": _RECORD,
    "team/budget/rules.py::of_team": _RECORD,
    "team/budget/rules.py::running_s": _RECORD,
    "team/budget/rules.py::seconds_left": _RECORD,
    "team/forge/way_back.py::awaits_verdict": _RECORD,
    "team/forge/way_back.py::moved": _RECORD,
    "team/forge/way_back.py::waits_for_ci": _RECORD,
    "team/forge/way_back.py::awaited": _RECORD,
    "team/requests/deadlines.py::RequestDeadlines._counted": _TRANSLATED,
    "team/requests/rules.py::is_overdue": "deadlines are moved when the clock jumps",
    "team/requests/rules.py::is_usable": "an approval may be used once; if in doubt, ask again",
    "team/requests/rules.py::outlived": "answered requests are forgotten about a day later",
    "team/tasks/lease_rules.py::expired.is_over": "a watcher has judged it before",
    "view/drawings/svg.py::gantt_svg": _SHOWN,
    "view/drawings/svg.py::spend_svg": _SHOWN,
    "view/sentences.py::age": _SHOWN,
    "view/summary.py::_times": _SHOWN,
    "workspace/merge_queue/test_tree.py::_age": _FILE,
}

MONOTONIC = ("agents/drivers/native/limiter.py",)
"""What is called a clock here is a monotonic one."""

_CLOCKS = ("now_ms", "clock", "_clock")
_TIMES = ("now_ms", "_now_ms", "wall_ms")
_ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


class WallTimes(ast.NodeVisitor):
    """Finds the functions that subtract or compare wall times."""

    def __init__(self) -> None:
        self.found: dict[str, int] = {}
        self._inside: list[str] = []
        # The local names that are wall times, for each function around.
        self._names: list[set[str]] = [set()]

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._inside.append(node.name)
        self.generic_visit(node)
        self._inside.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._inside.append(node.name)
        self._names.append(set())
        self.generic_visit(node)
        self._names.pop()
        self._inside.pop()

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            for name, value in _pairs(target, node.value):
                if isinstance(value, ast.Call | ast.BinOp) and self._is_wall(value):
                    self._names[-1].add(name)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if isinstance(node.op, ast.Sub) and (self._is_wall(node.left) or self._is_wall(node.right)):
            self._note(node)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        ordered = any(isinstance(sign, _ORDER) for sign in node.ops)
        if ordered and any(map(self._is_wall, [node.left, *node.comparators])):
            self._note(node)
        self.generic_visit(node)

    def _note(self, node: ast.expr) -> None:
        self.found.setdefault(".".join(self._inside), node.lineno)

    def _is_wall(self, node: ast.expr) -> bool:
        return any(map(self._reads_clock, ast.walk(node)))

    def _reads_clock(self, node: ast.AST) -> bool:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="time"), attr="time" | "time_ns")):
                return True
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in _CLOCKS:
                return True
            case ast.Name(id=name):
                return name in _TIMES or name in self._names[-1]
            case ast.Attribute(attr=name):
                return name in _TIMES
        return False


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for one, its in zip(target.elts, value.elts, strict=True):
            yield from _pairs(one, its)


def found_in(text: str) -> dict[str, int]:
    visitor = WallTimes()
    if any(word in text for word in (*_CLOCKS, *_TIMES, "time.time")):
        visitor.visit(ast.parse(text))
    return visitor.found


def test_wall_times_are_compared_only_where_there_is_a_reason() -> None:
    texts = {path.relative_to(SOURCE).as_posix(): path for path in sorted(SOURCE.rglob("*.py"))}
    found = {
        f"{name}::{function}": line
        for name, path in texts.items()
        if name not in MONOTONIC and not name.startswith("testing/")
        for function, line in found_in(path.read_text("utf-8")).items()
    }
    new = {name: line for name, line in found.items() if name not in ALLOWED}
    assert not new, f"use anyio.current_time() for a duration, or write the reason here: {new}"
    assert set(ALLOWED) == set(found), "these are gone: leave them out here"


def test_the_check_finds_what_it_looks_for() -> None:
    text = """
class A:
    def one(self): return self._clock() - self._since
    def two(self):
        now, x = self._clock() / 1000, 1
        return now < self._until
    def three(self): return time.time() - 5
    def four(self, now_ms): return now_ms >= 7
    def five(self): return anyio.current_time() - self._since < 3
    def six(self): return self._clock() + 5
"""
    assert list(found_in(text)) == ["A.one", "A.two", "A.three", "A.four"]
