"""`bullpen server` as people and cron use it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from bullpen.agents.system import processes
from bullpen.fleet.servers import detached

Run = Callable[..., Result]


def test_a_server_lives_from_start_to_stop_and_keeps_its_data(
    run: Run, as_json: Callable[..., Any], home: Path
) -> None:
    said = run("start", "--port", "0")
    assert said.exit_code == 0, said.output
    assert "export BULLPEN_STORE=nats://127.0.0.1:" in said.stdout

    again = as_json("start")
    assert again["directory"] == str(home / "nats")
    (node,) = again["nodes"]
    assert again["url"] in said.stdout

    seen = as_json("status")
    assert seen["alarms"] == []
    assert [each["up"] for each in seen["nodes"]] == [True]
    assert {"TEAM_00", "KV_TEAMS", "STARTS"} <= {each["name"] for each in seen["streams"]}
    assert (run("check").exit_code, run("check").output) == (0, "")

    assert as_json("stop")["stopped"] == ["n1"]
    assert detached.found(home / "nats") is not None
    assert processes.look(node["pid"]) is None or not processes.is_alive(
        node["pid"], processes.start_of(node["pid"]) or ""
    )
    result = run("check")
    assert result.exit_code == 1
    assert "Server n1 is down" in result.stdout
    assert "was running" in run("stop").stdout


def test_three_servers_keep_three_copies_and_one_that_died_is_started_again(
    run: Run, as_json: Callable[..., Any]
) -> None:
    made = as_json("start", "--nodes", "3", "--port", "0")
    assert (len(made["nodes"]), made["replicas"]) == (3, 3)
    os.kill(made["nodes"][1]["pid"], signal.SIGKILL)
    os.waitpid(made["nodes"][1]["pid"], 0)
    result = run("status")
    assert result.exit_code == 1
    assert "n2      down" in result.stdout
    assert "alarm: Server n2 is down" in result.stdout

    again = as_json("start")
    same = [0, 2]
    assert [again["nodes"][each] for each in same] == [made["nodes"][each] for each in same]
    assert again["nodes"][1]["pid"] != made["nodes"][1]["pid"]
    assert {stream["wanted"] for stream in as_json("status")["streams"]} == {3}
    assert as_json("stop")["stopped"] == ["n1", "n2", "n3"]


def test_other_servers_than_those_that_are_there_are_refused(run: Run) -> None:
    assert run("start", "--port", "0").exit_code == 0
    for words in (("--nodes", "3"), ("--port", "4999"), ("--replicas", "3")):
        result = run("start", *words)
        assert result.exit_code == 4, result.output
        assert "has 1 server " in result.stderr
    run("stop")


@pytest.mark.parametrize(
    "words", [("--nodes", "2"), ("--replicas", "3"), ("--nodes", "3", "--port", "65000")]
)
def test_servers_that_cannot_be_are_refused(run: Run, home: Path, words: tuple[str, ...]) -> None:
    assert run("start", *words).exit_code == 2
    assert not home.exists()


def test_a_port_that_somebody_else_has_is_named(run: Run) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        result = run("start", "--port", str(port if port < 61000 else port - 4000))
    assert result.exit_code == 4
    assert f"Port {port}" in result.stderr


def test_an_agent_starts_and_stops_no_servers(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BULLPEN_NONCE", "0123456789abcdef")
    monkeypatch.setenv("BULLPEN_AGENT", "alice")
    for words in (("start",), ("stop",), ("backup", "x"), ("restore", "x")):
        assert run(*words).exit_code == 2


def test_without_servers_the_next_command_is_told(run: Run) -> None:
    for words in (("status",), ("check",), ("stop",), ("backup", "x")):
        result = run(*words)
        assert result.exit_code == 3, result.output
        assert "hint:" in result.stderr


def test_a_backup_goes_from_one_server_to_another(
    run: Run, as_json: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = as_json("start", "--port", "0")["url"]
    made = as_json("backup", str(tmp_path / "backup"))
    assert {each["name"]: each["messages"] for each in made["streams"]}["KV_TEAMS"] == 1
    as_json("start", "--dir", str(tmp_path / "other"), "--port", "0")
    result = run("restore", str(tmp_path / "backup"), "--dir", str(tmp_path / "other"))
    assert result.exit_code == 0, result.output
    assert "Restored 7 streams with 1 messages" in result.stdout
    monkeypatch.setenv("BULLPEN_STORE", url)
    assert run("backup", str(tmp_path / "second")).exit_code == 0
    (tmp_path / "backup" / "TEAM_00.snapshot").write_bytes(b"")
    result = run("restore", str(tmp_path / "backup"))
    assert result.exit_code == 5
    assert "TEAM_00.snapshot" in result.stderr
    monkeypatch.delenv("BULLPEN_STORE")
    run("stop")
    run("stop", "--dir", str(tmp_path / "other"))


def test_servers_elsewhere_are_asked_by_their_addresses(
    run: Run, as_json: Callable[..., Any]
) -> None:
    (node,) = as_json("start", "--port", "0")["nodes"]
    seen = as_json("status", "--monitor", node["monitor"])
    assert [each["name"] for each in seen["nodes"]] == ["n1"]
    result = run("check", "--monitor", node["monitor"], "--monitor", "http://127.0.0.1:1", "--json")
    assert result.exit_code == 1
    assert [alarm["kind"] for alarm in json.loads(result.stdout)["alarms"]] == ["node_down"]
    run("stop")


def test_configurations_are_printed_for_each_machine(run: Run, as_json: Callable[..., Any]) -> None:
    assert set(as_json("config", "--hosts", "a,b,c")["configs"]) == {"a", "b", "c"}
    result = run("config", "--nodes", "1", "--auth", "./keys")
    assert result.exit_code == 0
    assert "sync_interval: always" in result.stdout
    assert "bullpen auth config --dir ./keys" in result.stdout
    assert run("config", "--nodes", "3", "--hosts", "a").exit_code == 2


def test_a_damaged_record_is_named(run: Run, home: Path) -> None:
    (home / "nats").mkdir(parents=True)
    (home / "nats" / detached.RECORD).write_text("{", encoding="utf-8")
    result = run("status")
    assert result.exit_code == 5
    assert detached.RECORD in result.stderr


def test_a_pid_that_another_process_has_now_is_not_signalled(
    run: Run, as_json: Callable[..., Any], home: Path
) -> None:
    (node,) = as_json("start", "--port", "0")["nodes"]
    record = home / "nats" / detached.RECORD
    told = json.loads(record.read_bytes())
    kept = json.dumps(told)
    told["nodes"][0]["start"] = "1-another"
    record.write_text(json.dumps(told), encoding="utf-8")
    said = run("stop").stdout
    lives = processes.look(node["pid"]) is not None
    # Before anything can fail: what the record does not name could not be stopped.
    record.write_text(kept, encoding="utf-8")
    assert "was running" in said
    assert lives
    assert as_json("stop")["stopped"] == ["n1"]


def test_nothing_but_its_owner_reads_the_record(run: Run, home: Path) -> None:
    run("start", "--port", "0")
    run("stop")
    assert (home / "nats" / detached.RECORD).stat().st_mode & 0o077 == 0
    assert (home / "nats").stat().st_mode & 0o077 == 0
    assert home.stat().st_mode & 0o077 == 0
    shutil.rmtree(home)
