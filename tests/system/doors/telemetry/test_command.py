"""`bullpen telemetry` as people use it, and the example with a collector."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bullpen.doors.cli.main import app
from support.doors.json_shapes import fitting
from support.doors.known_log import collecting

EXAMPLE = Path(__file__).parents[4] / "examples/telemetry/run.sh"
DEADLINE_S = 60


def bullpen(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bullpen", *words, "--home", str(home)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a team that has one task."""
    made = tmp_path / "home"
    for words in (["team", "create", "alpha"], ["task", "add", "Mix the colour"]):
        assert bullpen(made, *words).returncode == 0
    return made


def test_what_does_not_go_together_is_said(tmp_path: Path) -> None:
    for words, why in (
        ([], "pass one of --otlp, --prometheus, --prometheus-once and --logs"),
        (["--logs", "--prometheus-once"], "pass one of"),
        (["--prometheus-once", "--follow"], "--follow needs"),
        (["--prometheus-once", "--content"], "--content needs"),
        (["--otlp", "ftp://x"], "is not a URL such as http://localhost:4318"),
        (["--otlp", "http://x:99999"], "is not a URL such as http://localhost:4318"),
    ):
        done = CliRunner().invoke(app, ["telemetry", *words, "--home", str(tmp_path)])
        assert (done.exit_code, why in " ".join(done.stderr.split())) == (2, True), words


def test_without_the_extra_it_says_which_one_to_install(home: Path) -> None:
    code = """if True:
        import sys
        sys.modules["opentelemetry.exporter"] = None
        from bullpen.doors.cli.main import main
        main()
    """
    done = subprocess.run(
        [sys.executable, "-c", code, "telemetry", "--otlp", "http://localhost:1", "--home", home],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 5
    assert "pip install 'bullpen[otel]'" in done.stderr
    assert bullpen(home, "telemetry", "--prometheus-once").returncode == 0, "that needs none"


def test_a_team_is_sent_printed_and_logged(home: Path) -> None:
    with collecting() as collector:
        sent = bullpen(home, "telemetry", "--otlp", collector.url, "--json")
        assert sent.returncode == 0, sent.stderr
    told = fitting(sent.stdout)
    assert (told["team"], told["spans"]) == ("alpha", 1)
    assert [span.name for span in collector.spans] == ["invoke_workflow alpha"]
    assert collector.spans[0].trace_id.hex() == told["trace"]
    once = bullpen(home, "telemetry", "--prometheus-once")
    assert 'bullpen_tasks{team="alpha",state="ready"} 1' in once.stdout
    rows = [json.loads(line) for line in bullpen(home, "telemetry", "--logs").stdout.splitlines()]
    assert [row["op"] for row in rows] == ["team.create", "task.add"]
    assert {row["trace_id"] for row in rows} == {told["trace"]}


def test_metrics_are_served_as_the_team_goes_on_until_it_is_interrupted(home: Path) -> None:
    server = subprocess.Popen(
        [sys.executable, "-m", "bullpen", "telemetry", "--prometheus", "0", "--home", str(home)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:\d+/metrics", server.stdout.readline())
        assert found is not None

        def ready() -> str:
            with urllib.request.urlopen(found[0], timeout=DEADLINE_S) as answer:
                assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
                text = answer.read().decode()
            (line,) = [each for each in text.splitlines() if 'state="ready"' in each]
            return str(line.rsplit(" ", 1)[1])

        assert ready() == "1"
        assert bullpen(home, "task", "add", "Paint").returncode == 0
        assert ready() == "2"
        server.send_signal(signal.SIGINT)
        assert server.wait(DEADLINE_S) == 130
    finally:
        server.kill()
        server.communicate(timeout=DEADLINE_S)


def test_the_example_shows_a_run_in_a_collector(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", str(EXAMPLE)],
        env={"PATH": path, "HOME": str(tmp_path), "TMPDIR": str(tmp_path), "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert any(line.startswith("invoke_workflow greeters") for line in lines)
    assert any(re.match(r"  invoke_agent alice \(\d+ ms, reads mail of", line) for line in lines)
    assert any(line.startswith("    execute_tool Edit") for line in lines)
    assert sum("task #" in line for line in lines) == 4, "twice sent is there once"
    assert "bullpen.mail.latency" in lines[-1]
    assert list(tmp_path.glob("tmp.*")) == [], "nothing is left"
