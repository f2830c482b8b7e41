"""A runner for Gitea's Actions that plays its jobs from a script, by the runner's real protocol."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import anyio.to_thread
import httpx2

from bullpen.team.forge.shown import VerdictState
from bullpen.testing.forge.stage import ForgeStage

from .gitea_server import GiteaServer

LABEL = "ubuntu-latest"
TASK_S = 60.0


@dataclass(frozen=True, slots=True)
class Played:
    """How a job goes: which of its steps fails, if any, and what the job writes."""

    steps: int
    failing: int | None = None
    log: Sequence[str] = ()


class GiteaRunner:
    """A runner of one repository."""

    def __init__(self, server: GiteaServer, repository: str) -> None:
        scope = ("--scope", repository)
        token = server.command("actions", "generate-runner-token", *scope).strip().split()[-1]
        self._http = httpx2.Client(
            base_url=f"{server.url}/api/actions/runner.v1.RunnerService",
            timeout=60,
            trust_env=False,
        )
        asked = {"name": "player", "token": token, "version": "v0.2.13", "labels": [LABEL]}
        runner = self._call("Register", asked)["runner"]
        self._http.headers["x-runner-uuid"] = runner["uuid"]
        self._http.headers["x-runner-token"] = runner["token"]
        self._call("Declare", {"version": "v0.2.13", "labels": [LABEL]})

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def play(self, jobs: dict[str, Played]) -> None:
        """Wait for the named jobs and play each once."""
        left = dict(jobs)
        until = time.monotonic() + TASK_S
        while left:
            assert time.monotonic() < until, f"jobs that never came: {', '.join(left)}"
            task = self.fetch()
            if task is None:
                time.sleep(0.1)
                continue
            self.end(task, left.pop(task["context"]["job"]))

    def fetch(self) -> dict[str, Any] | None:
        """Take a job that waits, if there is one; its `context` has its name and its commit."""
        found: dict[str, Any] | None = self._call("FetchTask", {"tasksVersion": "0"}).get("task")
        return found

    def end(self, task: dict[str, Any], played: Played) -> None:
        """Write the log of a job, and what became of it and of its steps."""
        number = task["id"]
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        rows = [{"time": now, "content": line} for line in played.log]
        end = {"taskId": number, "index": "0", "rows": rows, "noMore": True}
        self._call("UpdateLog", end)
        steps: list[dict[str, Any]] = []
        for at in range(played.steps):
            result = "SUCCESS"
            if played.failing is not None and at >= played.failing:
                result = "FAILURE" if at == played.failing else "SKIPPED"
            steps.append(
                {
                    "id": str(at),
                    "result": f"RESULT_{result}",
                    "startedAt": now,
                    "stoppedAt": now,
                }
            )
        whole = "RESULT_SUCCESS" if played.failing is None else "RESULT_FAILURE"
        state = {"id": number, "result": whole, "startedAt": now, "stoppedAt": now, "steps": steps}
        self._call("UpdateTask", {"state": state})

    def _call(self, name: str, message: dict[str, Any]) -> dict[str, Any]:
        answer = self._http.post(
            f"/{name}", content=json.dumps(message), headers={"Content-Type": "application/json"}
        )
        assert answer.is_success, f"{name}: {answer.status_code} {answer.text}"
        shown: dict[str, Any] = answer.json()
        return shown


WORKFLOW = """\
name: CI
on:
  push:
    branches-ignore: [main]
jobs:
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
STEPS = ("Install", "Run pytest", "Upload")


ACTIONS_JOB = "CI / test (push)"


class Actions:
    """CI of a repository by Gitea's own Actions: each push begins a job, and this ends it."""

    def __init__(self, runner: GiteaRunner) -> None:
        self._runner = runner
        self._waiting: dict[str, dict[str, Any]] = {}

    async def verdict(
        self,
        commit: str,
        name: str,
        state: VerdictState,
        *,
        step: str | None = None,
        log: str = "",
    ) -> None:
        """Let the job about a commit end like this, or only begin; its name is in the workflow."""
        del name
        await anyio.to_thread.run_sync(self._begin, commit)
        if state == "pending":
            return
        rows = [f"line {number}" for number in range(2_000)] + log.splitlines()
        played = Played(len(STEPS), log=rows)
        if state == "failure" and step is not None:
            rows += [f"  \u274c  Failure - Main {step}", "exitcode '1': failure"]
            played = Played(len(STEPS), failing=STEPS.index(step), log=rows)
        task = self._waiting.pop(commit)
        await anyio.to_thread.run_sync(self._runner.end, task, played)

    def _begin(self, commit: str) -> None:
        """Wait for the job about a commit, and take it."""
        until = time.monotonic() + TASK_S
        while commit not in self._waiting:
            assert time.monotonic() < until, f"no job began for {commit}"
            task = self._runner.fetch()
            if task is None:
                time.sleep(0.1)
            else:
                self._waiting[task["context"]["sha"]] = task


@asynccontextmanager
async def actions_of(server: GiteaServer, stage: ForgeStage) -> AsyncIterator[Actions]:
    """Let the default branch have a workflow, and yield what ends its jobs."""
    place = f"{stage.owner}/{stage.name}"
    runner = await anyio.to_thread.run_sync(GiteaRunner, server, place)
    try:
        await stage.push("main", {".gitea/workflows/ci.yml": WORKFLOW}, role="reviewer")
        yield Actions(runner)
    finally:
        runner.close()
