"""Until when: what people type, quiet hours, who is started again, when a team is at its end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bullpen.errors import Invalid
from bullpen.protocol.agent import AgentFacts, AgentSpec, End
from bullpen.protocol.forge import ForgeWork
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Task
from bullpen.runs.watch.ending import HELD_S, EndVerdict, QueueState, all_done, at_a_standstill
from bullpen.runs.watch.quiet_hours import is_quiet
from bullpen.runs.watch.restarts import LOST_WITHIN_S, PAUSE_MAX_S, Prospect, Restarts, passes
from bullpen.runs.watch.until import DONE, Until, read_until
from support.rows import each_row


@pytest.fixture(autouse=True)
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Clocks that are put forward and back."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone()


NOW = "2031-05-01T22:15:30"


@each_row(
    ("text", "expected"),
    [
        ("07:00", "2031-05-02T07:00:00"),
        ("7:05", "2031-05-02T07:05:00"),
        ("22:15", "2031-05-02T22:15:00"),
        ("22:16", "2031-05-01T22:16:00"),
        ("8h", "2031-05-02T06:15:30"),
        ("90m", "2031-05-01T23:45:30"),
        ("1h30m", "2031-05-01T23:45:30"),
        ("45s", "2031-05-01T22:16:15"),
        ("2031-05-03T01:00", "2031-05-03T01:00:00"),
        ("2031-05-03T01:00+00:00", "2031-05-03T03:00:00"),
    ],
)
def test_a_time_is_read_as_people_mean_it(text: str, expected: str) -> None:
    found = read_until(text, now=at(NOW))
    assert found.what == "time"
    assert found.at_ms == round(at(expected).timestamp() * 1000)


def test_words_are_ends_too() -> None:
    assert read_until("done", now=at(NOW)) == DONE
    assert read_until(" idle ", now=at(NOW)) == Until("idle", words="idle")


@each_row(
    "text", ["", "soon", "25:00", "7", "h", "-3h", "2031-05-01T22:00", "0s", "99999h", "12:60"]
)
def test_what_is_no_time_or_over_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        read_until(text, now=at(NOW))


def test_the_next_time_of_day_is_right_when_clocks_are_changed() -> None:
    # In the night of 30 March 2031 clocks go from 2 to 3.
    found = read_until("07:00", now=at("2031-03-29T23:00"))
    assert found.at_ms is not None
    length = timedelta(milliseconds=found.at_ms) - timedelta(
        seconds=at("2031-03-29T23:00").timestamp()
    )
    assert length == timedelta(hours=7), "not 8"


@given(st.integers(0, 23), st.integers(0, 59), st.integers(0, 86_399))
def test_a_time_of_day_is_within_a_day_and_shows_that_time(h: int, m: int, s: int) -> None:
    now = at("2031-03-29T00:00") + timedelta(seconds=s)
    now = now.astimezone()
    found = read_until(f"{h:02}:{m:02}", now=now)
    assert found.at_ms is not None
    then = datetime.fromtimestamp(found.at_ms / 1000).astimezone()
    assert now < then <= now + timedelta(hours=25, minutes=1)
    if not (then.day == 30 and h == 2):
        # What clocks never show that night is an hour later.
        assert (then.hour, then.minute) == (h, m)


@each_row(
    ("spans", "time_", "quiet"),
    [
        (["22:00-06:30"], "23:00", True),
        (["22:00-06:30"], "06:29", True),
        (["22:00-06:30"], "06:30", False),
        (["22:00-06:30"], "21:59", False),
        (["09:00-17:00"], "12:00", True),
        (["09:00-17:00"], "17:00", False),
        (["09:00-12:00", "13:00-17:00"], "12:30", False),
        (["09:00-12:00", "13:00-17:00"], "13:00", True),
        ([], "13:00", False),
    ],
)
def test_quiet_hours_may_go_past_midnight(spans: list[str], time_: str, quiet: bool) -> None:
    assert is_quiet(spans, at(f"2031-05-01T{time_}")) is quiet


# ── who is started again ─────────────────────────────────────────────────────────────────────────


def agent(end: End | None, cause: str | None = None, *, at_s: float = 0.0) -> AgentFacts:
    spec = AgentSpec.new(driver="native", backend="subprocess", cwd="/")
    return AgentFacts.new(
        spec=spec.raw, nonce="n", phase="running" if end is None else "ended",
        since_ms=round(at_s * 1000), end=end, cause=cause,
    )  # fmt: skip


def test_a_kill_is_mended_at_once_and_several_in_a_row_are_not() -> None:
    restarts = Restarts(patient=True)
    now = 1000.0
    for _ in range(5):
        lost = agent("lost", at_s=now)
        while restarts.prospect("ann", lost, now) == "later":
            now += 1
        assert restarts.prospect("ann", lost, now) == "now"
        restarts.started("ann", lost, now)
        now += 5
    assert restarts.prospect("ann", agent("lost", at_s=now), now) == "never"
    assert restarts.prospect("bob", agent("lost", at_s=now), now) == "now", "it is each one's own"
    later = now + LOST_WITHIN_S
    assert restarts.prospect("ann", agent("lost", at_s=later), later) == "now", "a night is long"


def test_what_passes_is_waited_for_with_pauses_that_grow_to_five_minutes() -> None:
    restarts, now, pauses = Restarts(patient=True), 0.0, []
    for _ in range(40):
        failed = agent("failed", "The API says: 429 Too Many Requests", at_s=now)
        began = now
        while restarts.prospect("ann", failed, now) == "later":
            now += 1
        assert restarts.prospect("ann", failed, now) == "now"
        pauses.append(now - began)
        restarts.started("ann", failed, now)
        now += 2
    assert pauses[0] == 30
    assert pauses == sorted(pauses)
    assert max(pauses) == PAUSE_MAX_S
    running = agent(None, at_s=now)
    assert restarts.prospect("ann", running, now) == "runs"
    assert restarts.prospect("ann", running, now + 700) == "runs"
    failed = agent("failed", "overloaded", at_s=now + 701)
    assert restarts.prospect("ann", failed, now + 701) == "later"
    assert restarts.prospect("ann", failed, now + 731) == "now", "it worked: it begins anew"


def test_a_restart_waits_neither_longer_nor_shorter_when_the_clock_was_set() -> None:
    for set_s in (-3600.0, 3600.0):
        restarts, now = Restarts(patient=True), 1000.0
        failed = agent("failed", "429", at_s=5000.0 + set_s)
        assert [restarts.prospect("ann", failed, now + s) for s in (0, 29, 30)] == [
            "later", "later", "now",
        ]  # fmt: skip


@each_row(
    ("cause", "does"),
    [
        ("The model's API failed 5 times: 529 overloaded_error", True),
        ("rate_limit_error: try later", True),
        ("ConnectError: All connection attempts failed", True),
        ("[Errno 28] No space left on device", True),
        ("The model's API failed: 401 invalid x-api-key", False),
        ("There is no model 'x'.", False),
        ("API Error: 401 after a connection to the proxy timed out", False),
        ("Your credit balance is too low; earlier: 429 Too Many Requests", False),
        (None, False),
    ],
)
def test_what_passes_by_itself_is_known(cause: str | None, does: bool) -> None:
    assert passes(agent("failed", cause)) is does
    restarts, failed = Restarts(patient=True), agent("failed", cause)
    found = [restarts.prospect("ann", failed, now) for now in (1e6, 1e6 + 30)]
    assert found == (["later", "now"] if does else ["never", "never"])
    assert Restarts(patient=False).prospect("ann", agent("failed", cause), 1e6) == "never"


@each_row(
    ("failure", "does"),
    [
        *((each, True) for each in ("rate_limit", "overload", "network", "server")),
        *((each, False) for each in ("key", "permission", "credit", "model", "rejected", "new")),
    ],
)
def test_what_a_models_api_said_decides_and_not_its_words(failure: str, does: bool) -> None:
    """An old rate limit in the words hides no wrong key, and a 401 in them no overload."""
    for cause in ("429 Too Many Requests", "401 invalid x-api-key"):
        failed = agent("failed", cause).evolve(failure=failure)
        assert passes(failed) is does


@pytest.mark.parametrize("end", ["stopped", "suspended", "finished"])
def test_who_was_stopped_stays_so(end: End) -> None:
    assert Restarts(patient=True).prospect("ann", agent(end, "429"), 1e6) == "never"


def test_only_members_of_the_file_and_the_lead_are_started_again() -> None:
    restarts = Restarts(patient=True, members=["ann"])
    found = {name: restarts.prospect(name, agent("lost"), 10) for name in ("ann", "bob", LEAD)}
    assert found == {"ann": "now", "bob": "never", LEAD: "now"}


# ── when a team is at its end ────────────────────────────────────────────────────────────────────


def task(task_id: str, state: str) -> Task:
    status = {"open": "pending", "given_up": "pending", "busy": "in_progress"}.get(
        state, "completed"
    )
    made = Task.new(id=task_id, subject="s", description="", status=status)
    if state == "given_up":
        return made.with_facts(given_up="because")
    if state in ("queued", "merged"):
        merge = {"state": state, "order": 1, "commit": "c", "base": "b", "ref": "r", "by": "ann",
                 "attempt": 1, "atMs": 1}  # fmt: skip
        return made.with_facts(merge=merge)
    return made


def test_all_done_means_merged_and_given_up_means_unfinished() -> None:
    assert all_done([]) == EndVerdict("done")
    assert all_done([task("1", "done"), task("2", "merged")]) == EndVerdict("done")
    for state in ("open", "busy", "queued"):
        assert all_done([task("1", "done"), task("2", state)]) is None
    found = all_done([task("1", "merged"), task("2", "given_up"), task("3", "given_up")])
    assert found == EndVerdict("unfinished", "2 tasks were given up: #2, #3.")


def test_a_task_whose_issue_people_closed_is_not_missing() -> None:
    work = ForgeWork.new(repository="git.example/acme/shop", issue=7, outcome="issue_closed")
    closed = task("2", "given_up").with_facts(forge=work)
    assert all_done([task("1", "merged"), closed]) == EndVerdict("done")
    gone = task("2", "given_up").with_facts(forge=work.evolve(outcome="gone"))
    assert all_done([task("1", "merged"), gone]) != EndVerdict("done")


def test_a_team_of_which_all_have_failed_for_good_has_failed() -> None:
    agents = {"ann": agent("failed", "401"), "bob": agent("lost", "gone")}
    gone = at_a_standstill(
        [task("1", "open")], agents, {"ann": "never", "bob": "never"}, QueueState(), 0
    )
    assert gone is not None
    assert gone.status == "failed"
    assert "ann failed: 401; bob lost: gone" in str(gone.cause)
    for prospect in ("runs", "now", "later"):
        hopes = {"ann": "never", "bob": prospect}
        assert at_a_standstill([task("1", "open")], agents, hopes, QueueState(), 0) is None  # type: ignore[arg-type]
    # What waits for the queue needs nobody.
    nobody = {"ann": "never", "bob": "never"}
    assert at_a_standstill([task("1", "queued")], agents, nobody, QueueState(), 0) is None  # type: ignore[arg-type]


def test_at_a_limit_it_is_unfinished_and_says_so() -> None:
    met = agent("stopped", "Team 'night' has used $5 of $5.").evolve(at_limit="team:night:usd:5")
    found = at_a_standstill([task("1", "open")], {"ann": met}, {"ann": "never"}, QueueState(), 0)
    assert found == EndVerdict("unfinished", "Team 'night' has used $5 of $5.")


def test_tasks_behind_a_merge_that_is_held_do_not_keep_the_run_alive() -> None:
    behind = task("2", "open").evolve(blocked_by=["1"])
    last = task("3", "open").evolve(blocked_by=["2"])
    tasks = [last, task("1", "queued"), behind]
    held = QueueState("main itself fails", since_s=100.0)
    alive: dict[str, Prospect] = {"ann": "runs"}
    assert at_a_standstill(tasks, {}, alive, held, 100 + HELD_S - 1) is None
    found = at_a_standstill(tasks, {}, alive, held, 100 + HELD_S)
    assert found == EndVerdict("unfinished", "1 task waits to be merged: main itself fails")
    free = [*tasks, task("4", "open")]
    assert at_a_standstill(free, {}, alive, held, 100 + HELD_S) is None


def test_a_merge_that_is_held_is_waited_for_but_not_for_ever() -> None:
    held = QueueState("README is changed", since_s=100.0)
    tasks = [task("1", "queued")]
    assert at_a_standstill(tasks, {}, {}, held, 100 + HELD_S - 1) is None
    found = at_a_standstill(tasks, {}, {}, held, 100 + HELD_S)
    assert found == EndVerdict("unfinished", "1 task waits to be merged: README is changed")
    for_good = QueueState("no branch", since_s=100.0, for_good=True)
    assert at_a_standstill(tasks, {}, {}, for_good, 100) == EndVerdict(
        "failed", "1 task waits to be merged: no branch"
    )
