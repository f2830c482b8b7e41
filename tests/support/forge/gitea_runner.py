"""A runner for Gitea's Actions that plays its jobs from a script, by the runner's real protocol."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx2

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
            task = self._call("FetchTask", {"tasksVersion": "0"}).get("task")
            if task is None:
                time.sleep(0.1)
                continue
            name = task["context"]["job"]
            self._play(task["id"], left.pop(name))

    def _play(self, task: str, played: Played) -> None:
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        rows = [{"time": now, "content": line} for line in played.log]
        end = {"taskId": task, "index": "0", "rows": rows, "noMore": True}
        self._call("UpdateLog", end)
        steps: list[dict[str, Any]] = []
        for number in range(played.steps):
            result = "SUCCESS"
            if played.failing is not None and number >= played.failing:
                result = "FAILURE" if number == played.failing else "SKIPPED"
            steps.append(
                {
                    "id": str(number),
                    "result": f"RESULT_{result}",
                    "startedAt": now,
                    "stoppedAt": now,
                }
            )
        whole = "RESULT_SUCCESS" if played.failing is None else "RESULT_FAILURE"
        state = {"id": task, "result": whole, "startedAt": now, "stoppedAt": now, "steps": steps}
        self._call("UpdateTask", {"state": state})

    def _call(self, name: str, message: dict[str, Any]) -> dict[str, Any]:
        answer = self._http.post(
            f"/{name}", content=json.dumps(message), headers={"Content-Type": "application/json"}
        )
        assert answer.is_success, f"{name}: {answer.status_code} {answer.text}"
        shown: dict[str, Any] = answer.json()
        return shown
