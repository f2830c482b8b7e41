"""The benchmarks of real agents run from start to end. Figures mean little at these counts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from .bench_script import Report

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(sys.platform != "linux", reason="it measures with /proc"),
]
_FEW = ("--seconds", "1", "--messages", "6", "--pause", "0.1")


@pytest.mark.parametrize("driver", ["native", "scripted"])
def test_a_few_agents_with_processes_of_their_own_are_measured(tmp_path: Path, driver: str) -> None:
    found = Report(tmp_path, "agents", "--driver", driver, "--agents", "3", *_FEW)
    assert found.figure("left over") == 0
    assert 0 < found.figure("send to injected: p50") <= found.figure("send to injected: p99")
    if driver == "native":
        assert found.figure("send to injected: p50") < found.figure("send to request: p50")
    assert found.figure("private memory of one") > 1
    # The goals are for more agents than these.
    assert list(found.goals) == [f"3 {driver} agents: left over"]


def test_fifty_agents_in_one_process_work_and_stop(tmp_path: Path) -> None:
    """The system gives a process only so many notices and files: fifty agents get by with them."""
    words = ("--driver", "scripted", "--backend", "in-process", "--agents", "50", *_FEW)
    found = Report(tmp_path, "agents", *words)
    assert found.figure("50 scripted agents: left over") == 0


def test_a_native_agent_is_started_cold_first_and_warm(tmp_path: Path) -> None:
    found = Report(tmp_path, "native_spawn", "--rounds", "1")
    assert len(found.rows) == 36
    assert found.goals["native agent, Anthropic, warm: ready"] == "< 1 s"
    assert found.goals["native agent, Chat Completions, cold: ready"] == "< 3 s"
    assert found.goals["native agent, Anthropic, warm: processor time in all"] == "< 0.3 s"
    agent = "native agent, Anthropic, {}: processor time of the agent"
    assert found.figure(agent.format("warm")) < found.figure(agent.format("cold"))
