"""Notices to a person over hours, in simulated time: none twice, none lost, none at night."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest

from bullpen.protocol.clock import iso
from bullpen.protocol.names import LEAD
from bullpen.protocol.request import Request
from bullpen.runs.reach.browsers import Browser, Browsers
from bullpen.runs.reach.courier import Delivery
from bullpen.runs.reach.notice_text import Notice
from bullpen.runs.reach.outbox import read_outbox
from bullpen.runs.reach.person_notices import PersonNotices
from bullpen.runs.reach.request_links import RequestLinks
from bullpen.runs.reach.targets import Target
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Team, Teams
from bullpen.view.notable_events import Happening, happenings
from support.crews import new_team, simulate, simulated_ms
from support.doors.web_stage import hire
from support.reach.pushed import SubscribedBrowser

NTFY = Target(url="ntfy://alerts")
NIGHT = Target(url="ntfy://night", quiet="22:00-07:00")
PUSH = Target()
MINUTE_S = 60.0
HOUR_S = 3_600.0


def shown(ms: int) -> datetime:
    """Simulated time begins at 20:00."""
    return datetime(2031, 5, 1, 20, 0, tzinfo=UTC) + timedelta(milliseconds=ms - 1_000_000_000)


@dataclass(slots=True)
class Carried:
    """A courier that notes what it carried, and when. Some places are down."""

    sent: list[tuple[str, int, Notice]] = field(default_factory=list)
    down: dict[str, str] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    tried: int = 0
    slow_s: float = 0.0

    async def send(self, address: str, notice: Notice, *, timeout_s: float) -> Delivery:
        self.tried += 1
        await anyio.sleep(self.slow_s)
        if address in self.down:
            return Delivery(False, self.down[address])
        self.sent.append((address, simulated_ms(), notice))
        return Delivery(True)

    async def push(
        self, browser: Browser, key: bytes, notice: Notice, *, timeout_s: float
    ) -> Delivery:
        if browser.endpoint in self.gone:
            return Delivery(False, "status 410", gone=True)
        return await self.send(browser.endpoint, notice, timeout_s=timeout_s)

    @property
    def titles(self) -> list[str]:
        return [notice.title for _, _, notice in self.sent]


@dataclass(slots=True)
class Stage:
    """A team whose person is to be reached."""

    team: Team
    folder: Path
    courier: Carried
    told: list[str] = field(default_factory=list)
    address: str | None = "https://team.example.com"

    def notices(self) -> PersonNotices:
        links = RequestLinks(self.team, self.folder, lambda: self.address, clock=simulated_ms)
        return PersonNotices(
            self.team,
            kept=self.folder / "reach.json",
            links=links,
            browsers=Browsers(self.folder),
            courier=self.courier,
            environ={"CHAT": "ntfy://from-environment"},
            redacted=lambda text: text.replace("hunter2", "[secret]"),
            tell=self.told.append,
            clock=simulated_ms,
            shown=shown,
        )

    @asynccontextmanager
    async def sending(self, *targets: Target) -> AsyncIterator[PersonNotices]:
        notices = self.notices()
        async with notices.opened(targets), anyio.create_task_group() as group:
            group.start_soon(notices.run)
            yield notices
            group.cancel_scope.cancel()

    async def ask(self, notices: PersonNotices | None, command: str = "git push") -> Request:
        """Ask, and let the notices hear it as a run does."""
        after = await self.team.last_seq()
        request = await self.team.approvals.ask_permission(
            "Bash", {"command": command}, by="bob", approver="human", deadline_s=20 * HOUR_S
        )
        for event in await self.team.events(after=after):
            for happening in happenings("alpha", event):
                if notices is not None:
                    notices.hear(happening)
        return request


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated time passes while a thread works, so nothing may use one."""

    async def at_once(call: Callable[..., object], *given: object) -> object:
        return call(*given)

    monkeypatch.setattr(anyio.to_thread, "run_sync", at_once)


def staged(folder: Path, body: Callable[[Stage], Awaitable[None]]) -> Stage:
    """Play a body in simulated time."""
    found: list[Stage] = []

    async def play() -> None:
        async with Teams(MemoryStore(clock=simulated_ms), clock=simulated_ms) as teams:
            team = await new_team(teams)
            await hire(team, "bob")
            found.append(Stage(team, folder, Carried()))
            await body(found[0])

    simulate(play)
    return found[0]


def ended(number: int = 1) -> Happening:
    return Happening("ended", "alpha", iso(number), "done: it works", status="done")


def test_a_request_is_sent_once_with_links_that_are_made_then(tmp_path: Path) -> None:
    async def body(stage: Stage) -> None:
        async with stage.sending(NTFY) as notices:
            await stage.ask(notices)
            await stage.ask(notices, "git push --tags")
            notices.hear(Happening("merged", "alpha", iso(1), "#1 is merged", seq=90))
            notices.hear(Happening("stalled", "alpha", iso(1), "bob is stalled", seq=91))
            await anyio.sleep(MINUTE_S)

    stage = staged(tmp_path, body)
    assert stage.courier.titles == ["Bullpen: alpha needs you"] * 2
    notice = stage.courier.sent[0][2]
    assert [link.words for link in notice.links] == ["Allow", "Deny", "Open"]
    assert len({link.address for link in notice.links}) == 3
    assert stage.told == []


def test_without_an_address_no_links_are_made(tmp_path: Path) -> None:
    async def body(stage: Stage) -> None:
        stage.address = None
        async with stage.sending(NTFY) as notices:
            await stage.ask(notices)
            await anyio.sleep(MINUTE_S)

    stage = staged(tmp_path, body)
    assert [notice.links for _, _, notice in stage.courier.sent] == [()]
    assert not (tmp_path / "reach" / "answers.key").exists()


def test_a_target_gets_other_kinds_only_if_it_names_them(tmp_path: Path) -> None:
    async def body(stage: Stage) -> None:
        async with stage.sending(Target(url="ntfy://a", on=("merged",)), NTFY) as notices:
            notices.hear(Happening("merged", "alpha", iso(1), "#1 is merged", seq=90))
            notices.hear(ended())
            await anyio.sleep(MINUTE_S)

    stage = staged(tmp_path, body)
    assert [(to, notice.title) for to, _, notice in stage.courier.sent] == [
        ("ntfy://a", "Bullpen: alpha: merged"),
        ("ntfy://alerts", "Bullpen: alpha is done"),
    ]


def test_at_night_nothing_is_sent_and_in_the_morning_one_digest(tmp_path: Path) -> None:
    async def body(stage: Stage) -> None:
        async with stage.sending(NIGHT) as notices:
            await stage.ask(notices, "one")
            await anyio.sleep(3 * HOUR_S)
            answered = await stage.ask(notices, "two")
            await stage.ask(notices, "three")
            await stage.ask(notices, "four")
            await anyio.sleep(HOUR_S)
            await stage.team.approvals.answer(
                answered.id, approve=True, by=LEAD, voice="human", digest=answered.digest
            )
            await anyio.sleep(9 * HOUR_S)

    stage = staged(tmp_path, body)
    when = [shown(ms).strftime("%H:%M") for _, ms, _ in stage.courier.sent]
    assert when == ["20:00", "07:00"]
    digest = stage.courier.sent[1][2]
    assert digest.title == "Bullpen: alpha: 2 notices, 2 wait for you"
    assert [line.rsplit(" ", 1)[-1] for line in digest.lines] == ["three", "four"]
    assert [link.words for link in digest.links] == ["Open (bob)", "Open (bob)"]


def test_what_cannot_be_sent_is_tried_again_and_told_once(tmp_path: Path) -> None:
    async def body(stage: Stage) -> None:
        stage.courier.down["ntfy://alerts"] = "no route"
        async with stage.sending(NTFY, Target(url="ntfy://other")) as notices:
            await stage.ask(notices)
            await anyio.sleep(2 * HOUR_S)
            stage.courier.down.clear()
            await anyio.sleep(HOUR_S)

    stage = staged(tmp_path, body)
    assert [to for to, _, _ in stage.courier.sent] == ["ntfy://other", "ntfy://alerts"]
    assert stage.told == ["a notice to ntfy://… was not sent: no route"]
    assert stage.courier.tried < 25, "pauses grow"


def test_what_was_answered_before_it_could_be_sent_is_not_sent(tmp_path: Path) -> None:
    async def body(stage: Stage) -> None:
        stage.courier.down["ntfy://alerts"] = "no route"
        async with stage.sending(NTFY) as notices:
            request = await stage.ask(notices)
            await anyio.sleep(MINUTE_S)
            await stage.team.approvals.answer(
                request.id, approve=False, by=LEAD, voice="human", digest=request.digest
            )
            stage.courier.down.clear()
            await anyio.sleep(2 * HOUR_S)

    stage = staged(tmp_path, body)
    assert stage.courier.sent == []
    assert not read_outbox(tmp_path / "reach.json").waits


def test_after_a_kill_what_waited_and_what_was_missed_is_sent_and_nothing_twice(
    tmp_path: Path,
) -> None:
    async def body(stage: Stage) -> None:
        async with stage.sending(NTFY) as notices:
            await stage.ask(notices, "one")
            await anyio.sleep(MINUTE_S)
            stage.courier.down["ntfy://alerts"] = "no route"
            await stage.ask(notices, "two")
            await anyio.sleep(MINUTE_S)
        await stage.ask(None, "three")
        stage.courier.down.clear()
        async with stage.sending(NTFY):
            await anyio.sleep(HOUR_S)
        async with stage.sending(NTFY):
            await anyio.sleep(HOUR_S)

    stage = staged(tmp_path, body)
    said = [notice.lines[0].rsplit(" ", 1)[-1] for _, _, notice in stage.courier.sent]
    assert sorted(said) == ["one", "three", "two"]


def test_a_first_run_sends_nothing_of_what_was_before(tmp_path: Path) -> None:
    async def body(stage: Stage) -> None:
        await stage.ask(None)
        async with stage.sending(NTFY):
            await anyio.sleep(HOUR_S)

    assert staged(tmp_path, body).courier.sent == []


def test_an_address_comes_from_the_environment_and_is_never_told(tmp_path: Path) -> None:
    async def body(stage: Stage) -> None:
        there, missing = Target(url_env="CHAT"), Target(url_env="NONE")
        async with stage.sending(there, missing) as notices:
            notices.hear(ended())
            await anyio.sleep(MINUTE_S)

    stage = staged(tmp_path, body)
    assert [to for to, _, _ in stage.courier.sent] == ["ntfy://from-environment"]
    assert len(stage.told) == 1
    assert "$NONE" in stage.told[0]
    assert "from-environment" not in (tmp_path / "reach.json").read_text("utf-8")


def test_secrets_do_not_leave_the_machine(tmp_path: Path) -> None:
    async def body(stage: Stage) -> None:
        async with stage.sending(NTFY) as notices:
            await stage.ask(notices, "curl -u me:hunter2")
            await anyio.sleep(MINUTE_S)

    (sent,) = staged(tmp_path, body).courier.sent
    assert "hunter2" not in sent[2].body


def test_each_browser_gets_a_push_once_and_one_that_is_gone_is_removed(tmp_path: Path) -> None:
    places = [f"https://push.example.com/{name}" for name in ("phone", "desk", "old")]

    async def body(stage: Stage) -> None:
        browsers = Browsers(tmp_path)
        for place in places:
            browsers.add(SubscribedBrowser(place).of("alpha"))
        browsers.add(SubscribedBrowser("https://push.example.com/other").of("beta"))
        stage.courier.down[places[1]] = "status 500"
        stage.courier.gone.add(places[2])
        async with stage.sending(PUSH) as notices:
            await stage.ask(notices)
            await anyio.sleep(2)
            stage.courier.down.clear()
            await anyio.sleep(HOUR_S)

    stage = staged(tmp_path, body)
    assert [to for to, _, _ in stage.courier.sent] == places[:2]
    assert [each.endpoint for each in Browsers(tmp_path).of("alpha")] == places[:2]


# ── the end of a run ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("slow_s", [0.0, 600.0])
def test_an_interrupted_run_does_not_wait_for_senders_that_were_cancelled(
    tmp_path: Path, slow_s: float
) -> None:
    took: list[float] = []

    async def body(stage: Stage) -> None:
        stage.courier.slow_s = slow_s
        notices = stage.notices()
        async with notices.opened([NTFY, PUSH]):
            with anyio.CancelScope() as run:
                async with anyio.create_task_group() as group:
                    group.start_soon(notices.run)
                    await stage.ask(notices)
                    await anyio.sleep(0.5)
                    run.cancel()
                    began = anyio.current_time()
                    try:
                        await anyio.sleep_forever()
                    finally:
                        notices.hear(ended())
                        await notices.drain(within_s=5.0)
            took.append(anyio.current_time() - began)

    stage = staged(tmp_path, body)
    assert took[0] < 9
    left = read_outbox(tmp_path / "reach.json")
    assert left.waits is (slow_s > 0)
    if slow_s:
        assert any("has not got: 2" in words for words in stage.told)
    else:
        assert stage.courier.titles == ["Bullpen: alpha needs you", "Bullpen: alpha is done"]


def test_a_sending_that_is_nearly_done_when_the_run_is_interrupted_is_not_repeated(
    tmp_path: Path,
) -> None:
    async def body(stage: Stage) -> None:
        stage.courier.slow_s = 1.5
        with anyio.CancelScope() as run:
            async with stage.sending(NTFY) as notices:
                await stage.ask(notices)
                await anyio.sleep(1)
                run.cancel()
        stage.courier.slow_s = 0
        async with stage.sending(NTFY):
            await anyio.sleep(HOUR_S)

    assert len(staged(tmp_path, body).courier.sent) == 1


def test_what_a_run_has_left_is_sent_by_another_process_but_not_beside_a_run(
    tmp_path: Path,
) -> None:
    async def body(stage: Stage) -> None:
        assert not await stage.notices().send_left()
        async with stage.sending(NIGHT) as notices:
            await anyio.sleep(3 * HOUR_S)
            notices.hear(ended())
            await notices.drain(within_s=5)
            assert not await stage.notices().send_left(), "the run is there"
        assert await stage.notices().send_left()
        assert stage.courier.sent == [], "it is night"
        await anyio.sleep(9 * HOUR_S)
        assert await stage.notices().send_left()
        assert await stage.notices().send_left()

    assert staged(tmp_path, body).courier.titles == ["Bullpen: alpha is done"]
