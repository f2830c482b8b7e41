"""Runs sent to a collector on loopback by the real library, and what happens if it is not there."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from bullpen.agents.system.folders import agent_folder
from bullpen.agents.system.transcript import Transcript
from bullpen.doors.telemetry import export
from bullpen.doors.telemetry.metrics import Meter
from bullpen.doors.telemetry.observed_team import Observer
from bullpen.doors.telemetry.otlp import Otlp
from bullpen.doors.telemetry.spans import Trace
from bullpen.errors import Unavailable
from bullpen.protocol.agent import AgentSpec, ProcessRecord
from bullpen.protocol.names import LEAD
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Team, Teams
from support.doors.known_log import BEGAN_MS, Collector, collecting, known_log

NONCE = "n-1"


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as made:
        yield made


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def test_a_run_arrives_as_it_was_told_and_again_the_same(collector: Collector) -> None:
    otlp = Otlp(collector.url, timeout_s=10)
    for _ in range(2):
        otlp.send_spans(Trace().tell(known_log(), {}))
    otlp.close()
    assert len(collector.spans) == 10
    assert len({span.span_id for span in collector.spans}) == 5, "the same spans came again"
    by_name = {span.name: span for span in collector.spans}
    ann, ben = by_name["invoke_agent ann"], by_name["invoke_agent ben"]
    assert ann.start_time_unix_nano == (BEGAN_MS + 5_000) * 1_000_000
    assert ann.end_time_unix_nano == (BEGAN_MS + 35_000) * 1_000_000
    assert [link.span_id for link in ben.links] == [ann.span_id]
    assert ann.parent_span_id == by_name["invoke_workflow night"].span_id
    assert (ann.status.code, ben.status.code) == (0, 2)
    attributes = {each.key: each.value for each in ben.attributes}
    assert attributes["gen_ai.request.model"].string_value == "gpt-6"
    assert attributes["error.type"].string_value == "failed"
    assert [each.string_value for each in attributes["bullpen.tasks"].array_value.values] == ["2"]


def test_metrics_arrive_with_their_kinds_and_numbers(collector: Collector) -> None:
    events = known_log()
    meter, trace = Meter(), Trace()
    meter.tell(events, trace.tell(events, {}))
    otlp = Otlp(collector.url, timeout_s=10)
    metrics = meter.metrics({}, now_ms=trace.at_ms)
    otlp.send_metrics(metrics, team="night", from_ms=trace.began_ms, now_ms=trace.at_ms)
    otlp.close()
    found = {metric.name: metric for metric in collector.metrics}
    assert found["bullpen.cost"].sum.is_monotonic
    assert sum(each.as_double for each in found["bullpen.cost"].sum.data_points) == 0.0125
    spread = found["bullpen.mail.latency"].histogram.data_points
    assert sorted(each.sum for each in spread) == [4, 12]
    assert {each.time_unix_nano for each in spread} == {(BEGAN_MS + 66_000) * 1_000_000}
    tasks = {
        each.attributes[0].value.string_value: each.as_int
        for each in found["bullpen.tasks"].gauge.data_points
    }
    assert (tasks["merged"], tasks["ready"], tasks["in_progress"]) == (1, 1, 0)


def test_a_collector_that_is_not_there_is_an_error_that_says_so() -> None:
    otlp = Otlp(f"http://127.0.0.1:{free_port()}", timeout_s=1)
    with pytest.raises(Unavailable) as caught:
        otlp.send_spans(Trace().tell(known_log(), {}))
    otlp.close()
    assert "did not accept the spans" in caught.value.message
    assert "4318" in caught.value.remedy


async def a_team(folder: Path) -> Team:
    teams = Teams(MemoryStore())
    await teams.create("alpha", description="Go")
    team = teams.open("alpha")
    spec = AgentSpec.new(driver="scripted", backend="subprocess", cwd=str(folder), prompt="Go")
    await team.agents.register("ann", spec, by=LEAD, nonce=NONCE)
    place = ProcessRecord.new(backend="subprocess", host="elsewhere", pid=1, start="1-1")
    await team.agents.ready("ann", nonce=NONCE, place=place)
    return team


async def a_turn(team: Team) -> None:
    await team.agents.begin_turn("ann", nonce=NONCE)
    await team.agents.end_turn("ann", nonce=NONCE, reports={}, idle=None)


async def test_what_a_collector_refuses_is_sent_again_and_what_comes_is_sent_too(
    collector: Collector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "GAP_S", 0.01)
    monkeypatch.setattr(export, "EVERY_S", 0.1)
    team = await a_team(tmp_path)
    await a_turn(team)
    collector.refuses = 2
    said: list[str] = []
    otlp = Otlp(collector.url, timeout_s=5)

    async def follow() -> None:
        observer = Observer(team, tmp_path)
        await export.keep_sending(team, observer, otlp, warn=said.append)

    async def spans(count: int) -> None:
        while len({span.span_id for span in collector.spans}) < count:  # noqa: ASYNC110
            await anyio.sleep(0.02)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(follow)
            await spans(1)
            await a_turn(team)
            await spans(2)
            group.cancel_scope.cancel()
    otlp.close()
    assert len(said) == 1 and "Trying again." in said[0], "trouble is told once"
    assert [span.name for span in collector.spans] == ["invoke_agent ann"] * 2
    assert collector.metrics


async def test_a_run_is_sent_with_the_calls_of_the_transcripts_that_are_here(
    collector: Collector, tmp_path: Path
) -> None:
    team = await a_team(tmp_path)
    folder = agent_folder(tmp_path, await team.agents.config(), "ann")
    folder.mkdir(parents=True)
    transcript = Transcript(folder)
    await team.agents.begin_turn("ann", nonce=NONCE)
    transcript.record("tool", name="Bash", input={"command": "secret"})
    transcript.record("result", name="Bash", text="secret", error=False)
    await team.agents.end_turn("ann", nonce=NONCE, reports={}, idle=None)
    transcript.close()
    otlp = Otlp(collector.url, timeout_s=5)
    count = await export.send_once(Observer(team, tmp_path), otlp)
    otlp.close()
    assert count == 2
    turn, tool = collector.spans
    assert (turn.name, tool.name) == ("invoke_agent ann", "execute_tool Bash")
    assert tool.parent_span_id == turn.span_id
    assert b"secret" not in b"".join(span.SerializeToString() for span in collector.spans)
