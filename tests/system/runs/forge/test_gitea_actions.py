"""Verdicts of Gitea's own Actions, with the failing step and the end of the real log."""

from __future__ import annotations

import anyio.to_thread

from bullpen.testing.forge.pull_promises import eventually
from support.forge.gitea_runner import GiteaRunner, Played
from support.forge.gitea_server import GiteaServer
from support.forge.gitea_stage import GiteaStage

WORKFLOW = """\
name: CI
on: push
jobs:
  lint:
    runs-on: ubuntu-latest
    steps:
      - run: ruff check
  test:
    runs-on: ubuntu-latest
    steps:
      - name: Install
        run: uv sync
      - name: Run pytest
        run: pytest
      - name: Upload
        run: upload
"""
FAILED = "  \u274c  Failure - Main Run pytest"
"""What the runner itself writes."""


async def test_a_failed_job_of_actions_has_its_step_and_the_end_of_its_log(
    gitea: GiteaServer, stage: GiteaStage
) -> None:
    client = stage.client()
    runner = await anyio.to_thread.run_sync(GiteaRunner, gitea, f"{stage.owner}/{stage.name}")
    try:
        commit = await stage.push("change", {".gitea/workflows/ci.yml": WORKFLOW})
        pending = await eventually(lambda: client.verdicts(commit), lambda them: len(them) == 2)
        assert {each.state for each in pending} == {"pending"}
        log = [f"line {each} größer" for each in range(2_000)] + ["assert 1 == 2", FAILED]
        jobs = {"lint": Played(1, log=["fine"]), "test": Played(3, failing=1, log=log)}
        await anyio.to_thread.run_sync(runner.play, jobs)
        lint, test = await client.verdicts(commit)
    finally:
        runner.close()
    assert (lint.name, lint.state, lint.step, lint.tail) == (
        "CI / lint (push)",
        "success",
        None,
        None,
    )
    assert (test.name, test.state) == ("CI / test (push)", "failure")
    # Gitea 1.26 says of each step that it failed: only the log says which did.
    assert test.step == "Run pytest"
    assert test.tail is not None
    lines = test.tail.splitlines()
    assert lines == log[-len(lines) :]
    assert test.url.startswith(f"{gitea.url}/{stage.owner}/{stage.name}/actions/runs/")
