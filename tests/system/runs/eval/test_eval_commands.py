"""The commands of `bullpen eval`, as people and programs type them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]

from bullpen.doors.cli.output.json_schemas import schema_of
from support.evals.suites import FINISH, bash, make_suite, script


def bullpen(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bullpen", *words],
        cwd=cwd,
        env={**os.environ, "BULLPEN_HOME": str(cwd / "home")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def valid(text: str, name: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(text)
    jsonschema.Draft202012Validator(schema_of(name)).validate(found)
    return found


def test_an_eval_from_its_run_to_its_page(tmp_path: Path) -> None:
    make_suite(tmp_path / "evals")
    fix = "sed -i 's/a - b/a + b/' adder.py"
    made = script(tmp_path, {"team-lead": [bash(fix), FINISH]})
    words = ("eval", "run", "evals", "--arms", "solo,empty", "--driver", "scripted")
    done = bullpen(*words, "--script", str(made), "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    arms = {each["arm"]: each["passed"] for each in valid(done.stdout, "eval")["arms"]}  # type: ignore[attr-defined]
    assert arms == {"solo": 1, "empty": 0}
    shown = bullpen("eval", "report", "evals-results", cwd=tmp_path)
    assert re.search(r"solo +1 of 1 +100%", shown.stdout), shown
    markdown = bullpen("eval", "report", "evals-results", "--format", "md", cwd=tmp_path)
    assert "| solo | 1 of 1 | 100% | 20.7% to 100.0% |" in markdown.stdout
    written = bullpen("eval", "report", "evals-results", "-o", "e.html", "--json", cwd=tmp_path)
    assert valid(written.stdout, "report-written")["format"] == "html"
    page = (tmp_path / "e.html").read_text()
    assert page.count("<svg") == 2
    assert "<script" not in page
    # The name of the format of plots is no address that a browser would open.
    assert "://" not in page.replace('xmlns="http://www.w3.org/2000/svg"', "")


def test_a_page_shows_words_of_a_trial_as_text(tmp_path: Path) -> None:
    make_suite(tmp_path / "evals", test="false")
    bullpen("eval", "run", "evals", "--arms", "empty", cwd=tmp_path)
    [path] = (tmp_path / "evals-results" / "trials").glob("*.json")
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "why": "<img src=x> | [a](b)"}))
    html = bullpen("eval", "report", "evals-results", "--format", "html", cwd=tmp_path)
    assert "<img" not in html.stdout
    assert "&lt;img src=x&gt;" in html.stdout
    markdown = bullpen("eval", "report", "evals-results", "--format", "md", cwd=tmp_path)
    assert r"&lt;img src=x> \| \[a\](b)" in markdown.stdout


def test_trials_without_a_verdict_make_the_command_fail(tmp_path: Path) -> None:
    make_suite(tmp_path / "evals", more='read = ["."]\n')
    made = script(tmp_path, {"nobody": [FINISH]})
    words = ("eval", "run", "evals", "--arms", "solo", "--driver", "scripted")
    done = bullpen(*words, "--script", str(made), cwd=tmp_path)
    assert done.returncode == 1
    assert "could not be run" in done.stderr


def test_mistakes_have_a_remedy(tmp_path: Path) -> None:
    for words, said in (
        (("run", "nowhere"), "bullpen eval make"),
        (("run", "nowhere", "--arms", "duo"), "solo, solo+review, team"),
        (("report", "nowhere"), "Name a folder with results"),
        (("make", "--cwd", "/"), "no git repository"),
        (("import", "harbor", "nowhere"), "Name a file or folder that exists"),
    ):
        done = bullpen("eval", *words, cwd=tmp_path)
        assert done.returncode != 0
        assert said in done.stderr, done.stderr
        assert "Traceback" not in done.stderr
