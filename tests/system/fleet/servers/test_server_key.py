"""Servers of `bullpen server start` require the key of their home."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from bullpen.agents.system import processes
from bullpen.app.server_keys import FOLDER, key_file
from bullpen.doors.cli.main import app
from bullpen.fleet.servers import detached
from bullpen.fleet.servers.config import loopback_config
from bullpen.fleet.servers.server_binary import find_binary
from bullpen.fleet.servers.server_process import write_config

from .conftest import Run

AsJson = Callable[..., Any]
PATIENCE_S = 60.0


def bullpen(*words: str) -> Result:
    """Run a command as a person in the home of the test."""
    return CliRunner().invoke(app, list(words))


def said(*words: str) -> str:
    """Return what a command that works says."""
    result = bullpen(*words)
    assert result.exit_code == 0, result.output
    return result.stdout


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


def answers(port: int, *lines: bytes) -> bytes:
    """Send lines to a port with nothing but a socket, and return all that comes back."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as link:
        heard = link.recv(65536)
        try:
            link.sendall(b"".join(line + b"\r\n" for line in lines))
            link.settimeout(2)
            while more := link.recv(65536):
                heard += more
        except (TimeoutError, ConnectionError):
            pass
    return heard


def test_a_program_without_the_key_reads_and_purges_nothing(as_json: AsJson) -> None:
    url = as_json("start", "--port", "0")["url"]
    said("--store", url, "team", "create", "victim")
    said("--store", url, "task", "add", "precious", "-t", "victim")
    heard = answers(
        port_of(url),
        b'CONNECT {"verbose":false,"headers":true}',
        b"SUB _I 1",
        b"PUB $JS.API.STREAM.NAMES _I 0\r\n",
        b"PUB $JS.API.STREAM.PURGE.TEAM_00 _I 0\r\n",
        b"PING",
    )
    assert b"TEAM_00" not in heard
    assert b"purged" not in heard
    assert b"PONG" not in heard
    assert "precious" in said("--store", url, "task", "list", "-t", "victim")


def test_a_program_without_the_key_is_no_server_of_the_cluster(as_json: AsJson, home: Path) -> None:
    as_json("start", "--nodes", "3", "--port", "0")
    servers = detached.found(home / "nats")
    assert servers is not None
    for node in servers.nodes:
        heard = answers(
            node.ports.route,
            b'CONNECT {"verbose":false,"name":"other","cluster":"bullpen","protocol":1}',
            b'INFO {"server_id":"other","server_name":"other","cluster":"bullpen","headers":true}',
            b"PING",
        )
        assert b"PONG" not in heard
        assert b"RS+" not in heard


def test_commands_with_the_home_of_the_server_find_its_key(
    as_json: AsJson, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = as_json("start", "--port", "0")["url"]
    other = as_json("start", "--nodes", "3", "--dir", str(tmp_path / "three"), "--port", "0")
    three = other["url"]
    assert Path(other["key"]).is_relative_to(home)

    said("--store", first, "team", "create", "alpha")
    assert "alpha" in said("--store", first.replace("127.0.0.1", "localhost"), "team", "list")
    monkeypatch.setenv("BULLPEN_STORE", first)
    assert "alpha" in said("team", "list")
    said("hosts")
    assert bullpen("host", "forget", "nobody").exit_code == 3
    # Not the key of the store that is moved from, even if it is named.
    monkeypatch.setenv("BULLPEN_CREDS", str(key_file(home, port_of(first))))
    said("team", "move", "alpha", "--to", three)
    monkeypatch.delenv("BULLPEN_CREDS")
    for node in other["nodes"]:
        assert "alpha" in said("--store", node["url"], "team", "list")
    said("server", "prepare", "--replicas", "3", "--dir", str(tmp_path / "three"))


def test_a_command_without_the_key_is_told_what_to_do(
    as_json: AsJson, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = as_json("start", "--port", "0")
    other = as_json("start", "--dir", str(tmp_path / "other"), "--port", "0")
    monkeypatch.setenv("BULLPEN_STORE", made["url"])
    monkeypatch.setenv("BULLPEN_CREDS", other["key"])
    result = bullpen("team", "list")
    assert result.exit_code != 0
    assert f"refuses the key in {other['key']}" in result.stderr
    assert "hint: Set BULLPEN_CREDS to the key of these servers" in result.stderr

    monkeypatch.delenv("BULLPEN_CREDS")
    monkeypatch.setenv("BULLPEN_HOME", str(tmp_path / "elsewhere"))
    result = bullpen("team", "list")
    assert result.exit_code != 0
    assert "requires a key" in result.stderr
    assert "hint: Set BULLPEN_CREDS" in result.stderr
    # The remedy is one.
    monkeypatch.setenv("BULLPEN_CREDS", made["key"])
    said("team", "list")


def test_the_key_is_its_users_alone_and_stays(run: Run, as_json: AsJson, home: Path) -> None:
    made = as_json("start", "--port", "0")
    key = Path(made["key"])
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(key.parent.stat().st_mode) == 0o700
    (conf,) = (home / "nats").rglob("nats-server.conf")
    assert stat.S_IMODE(conf.stat().st_mode) == 0o600
    seed = key.read_text("ascii").strip()
    for file in (conf, home / "nats" / detached.RECORD, conf.parent / "nats-server.log"):
        assert seed not in file.read_text("utf-8"), file
    run("stop")
    assert as_json("start")["key"] == str(key)
    assert key.read_text("ascii").strip() == seed


def test_a_damaged_key_is_named_without_its_text(run: Run, home: Path, as_json: AsJson) -> None:
    key = Path(as_json("start", "--port", "0")["key"])
    run("stop")
    key.write_text("SUAWRONG\n", encoding="ascii")
    result = run("start")
    assert result.exit_code == 5, result.output
    assert str(key) in result.stderr
    assert "SUAWRONG" not in result.output
    assert "Remove the file" in result.stderr
    key.unlink()
    said("--store", as_json("start")["url"], "team", "list")


def test_servers_of_an_older_version_get_a_key_when_they_start_again(
    run: Run, as_json: AsJson, home: Path
) -> None:
    url = as_json("start", "--port", "0")["url"]
    said("--store", url, "team", "create", "old")
    run("stop")
    # As it was left: a record and a configuration without a key, and none in the home.
    record = home / "nats" / detached.RECORD
    told = json.loads(record.read_bytes())
    del told["key"]
    record.write_text(json.dumps(told), encoding="utf-8")
    shutil.rmtree(home / FOLDER)
    servers = detached.found(home / "nats")
    assert servers is not None
    (node,) = servers.nodes
    write_config(node, loopback_config(node, servers.nodes))
    pid, _ = detached._launch(find_binary(os.environ), node)
    told["nodes"][0].update(pid=pid, start=processes.start_of(pid))
    record.write_text(json.dumps(told), encoding="utf-8")

    result = run("start")
    assert result.exit_code == 4, result.output
    assert "run without the key" in result.stderr
    assert "bullpen server stop" in result.stderr
    run("stop")
    assert as_json("start")["url"] == url
    assert "old" in said("--store", url, "team", "list")
    assert b"PONG" not in answers(node.ports.client, b"CONNECT {}", b"PING")


def test_an_agent_gets_neither_the_key_nor_its_place(
    as_json: AsJson, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = as_json("start", "--port", "0")
    monkeypatch.setenv("BULLPEN_STORE", made["url"])
    monkeypatch.setenv("BULLPEN_HOST", "here")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quiet.toml").write_text("[agents.ann]\n", encoding="utf-8")
    said("team", "create", "crew")
    spawn = ("spawn", "ann", "-t", "crew", "--driver", "scripted", "--script", "quiet.toml")
    alone = bullpen(*spawn)
    assert alone.exit_code != 0
    assert "bullpen host run" in alone.stderr

    command = [sys.executable, "-m", "bullpen", "host", "run", "--label", "here"]
    with (tmp_path / "host.log").open("wb") as log:
        host = subprocess.Popen(command, stdout=log, stderr=log)

    def states_of_hosts() -> set[str]:
        return {each["state"] for each in json.loads(said("hosts", "--json"))["hosts"]}

    try:
        deadline = time.monotonic() + PATIENCE_S
        while "ready" not in states_of_hosts():
            assert time.monotonic() < deadline, (tmp_path / "host.log").read_text("utf-8")
            time.sleep(0.1)
        said(*spawn, "--on", "here")
        agents = json.loads(said("ps", "-t", "crew", "--json"))["agents"]
        (pid,) = [each["place"]["pid"] for each in agents if each["name"] == "ann"]
        seen = Path(f"/proc/{pid}/environ").read_bytes().decode()
        assert "BULLPEN_STORE=host:" in seen
        assert made["url"] not in seen
        assert FOLDER not in seen
        assert "BULLPEN_CREDS" not in seen
        assert Path(made["key"]).read_text("ascii").strip() not in seen
    finally:
        bullpen("stop", "ann", "-t", "crew")
        host.terminate()
        host.wait(30)
