"""Hook commands: which run, what their ends mean, and that none is left behind."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from bullpen.agents.hooks.commands import OUTPUT_BYTES_MAX, run_hooks
from bullpen.agents.hooks.hook_set import HookSet, HookVerdict
from bullpen.agents.system import processes
from support.crews import eventually

BASH = {"tool_name": "Bash", "tool_input": {"command": "git push"}}


def hooks(event: str, *commands: str, matcher: str | None = None, **more: Any) -> dict[str, Any]:
    """Hooks for one event, as Claude Code's settings name them."""
    group: dict[str, Any] = {
        "hooks": [{"type": "command", "command": each, **more} for each in commands]
    }
    if matcher is not None:
        group["matcher"] = matcher
    return {event: [group]}


async def ran(
    raw: Mapping[str, Any],
    event: str = "PreToolUse",
    payload: Mapping[str, Any] = BASH,
    *,
    cwd: str = "/",
    env: Mapping[str, str] | None = None,
) -> HookVerdict:
    return await run_hooks(HookSet.of(raw), event, payload, cwd=cwd, env=dict(env or os.environ))


def answers(told: object) -> str:
    """A command that prints a JSON answer."""
    return f"cat > /dev/null; printf '%s' '{json.dumps(told)}'"


def specific(**told: object) -> dict[str, object]:
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **told}}


async def test_exit_two_refuses_with_what_it_wrote_to_standard_error() -> None:
    verdict = await ran(hooks("PreToolUse", "echo out; echo 'not on a Friday' >&2; exit 2"))
    assert (verdict.effect, verdict.refused) == ("deny", "not on a Friday")
    assert verdict.troubles == ()


async def test_exit_zero_passes_whatever_it_prints() -> None:
    assert await ran(hooks("PreToolUse", "echo fine; echo hm >&2")) == HookVerdict()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("echo broken >&2; exit 1", "exit code 1: broken"),
        ("/no/such/program", "exit code 127"),
        ("kill -9 $$", "exit code -9"),
        (answers({"decision": "perhaps"}), "unknown decision 'perhaps'"),
    ],
)
async def test_any_other_end_is_trouble_and_no_refusal(command: str, words: str) -> None:
    verdict = await ran(hooks("PreToolUse", command))
    assert verdict.effect is None
    (trouble,) = verdict.troubles
    assert words in trouble and "PreToolUse" in trouble


async def test_a_directory_that_is_gone_is_trouble(tmp_path: Path) -> None:
    verdict = await ran(hooks("PreToolUse", "exit 2"), cwd=str(tmp_path / "gone"))
    assert verdict.effect is None and "could not be run" in verdict.troubles[0]


async def test_the_payload_comes_on_standard_input_whole(tmp_path: Path) -> None:
    payload = {**BASH, "text": "é\n" * 200_000}
    await ran(hooks("PreToolUse", f"cat > {tmp_path}/got"), payload=payload)
    assert json.loads((tmp_path / "got").read_bytes()) == payload


async def test_a_hook_need_not_read_what_it_is_told() -> None:
    verdict = await ran(hooks("PreToolUse", "exit 2"), payload={**BASH, "text": "x" * 1_000_000})
    assert verdict.effect == "deny"


async def test_output_is_bounded_and_does_not_block() -> None:
    verdict = await ran(hooks("PreToolUse", "head -c 3000000 /dev/zero >&2; exit 2"))
    assert verdict.effect == "deny"
    assert len(verdict.why) <= OUTPUT_BYTES_MAX


async def test_several_hooks_run_at_the_same_time_and_the_strictest_wins(tmp_path: Path) -> None:
    def meets(number: int) -> str:
        """A command that goes on when all four run."""
        here = f"cd {tmp_path}; touch {number}"
        return f"{here}; until [ -e 1 -a -e 2 -a -e 3 -a -e 4 ]; do sleep 0.02; done"

    raw = hooks(
        "PreToolUse",
        f"{meets(1)}; {answers(specific(permissionDecision='allow'))}",
        f"{meets(2)}; {answers(specific(permissionDecision='ask', permissionDecisionReason='hm'))}",
        f"{meets(3)}; echo first no >&2; exit 2",
        f"{meets(4)}; echo second no >&2; exit 2",
    )
    verdict = await ran(raw)
    assert verdict.effect == "deny"
    assert verdict.why.splitlines() == ["first no", "second no"]


async def test_the_same_command_from_two_files_runs_once(tmp_path: Path) -> None:
    command = f"echo x >> {tmp_path}/ran"
    group = hooks("Stop", command)["Stop"][0]
    await ran({"Stop": [{**group, "source": "a"}, {**group, "source": "b"}]}, "Stop", {})
    assert (tmp_path / "ran").read_text() == "x\n"


async def test_the_environment_is_what_is_given_and_the_project(tmp_path: Path) -> None:
    raw = hooks("Stop", f"env > {tmp_path}/env; pwd > {tmp_path}/pwd")
    raw["Stop"][0]["project"] = "/the/project"
    await ran(raw, "Stop", {}, cwd=str(tmp_path), env={"PATH": "/usr/bin:/bin", "MINE": "1"})
    found = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines())
    assert found["CLAUDE_PROJECT_DIR"] == "/the/project"
    assert set(found) <= {"PATH", "MINE", "CLAUDE_PROJECT_DIR", "PWD", "SHLVL", "_", "OLDPWD"}
    assert (tmp_path / "pwd").read_text().strip() == str(tmp_path)


def alive(path: Path) -> bool:
    """Whether the process whose id is in a file runs; one that nobody waited for does not."""
    row = processes.look(int(path.read_text(encoding="utf-8")))
    return row is not None and row.runs


STUBBORN = (
    "trap '' TERM; sleep 60 & echo $! > {0}/child; echo $$ > {0}/h; mv {0}/h {0}/hook;"
    " wait; sleep 60"
)


async def test_a_hook_that_takes_too_long_is_ended_with_all_it_started(tmp_path: Path) -> None:
    verdict = await ran(hooks("PreToolUse", STUBBORN.format(tmp_path), timeout=1.5))
    assert verdict.effect is None
    assert "timed out after 1.5 s" in verdict.troubles[0]
    assert not alive(tmp_path / "hook")
    await eventually(lambda: not alive(tmp_path / "child"), within_s=30)


async def test_a_hook_is_ended_when_the_agent_is_cancelled(tmp_path: Path) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(ran, hooks("PreToolUse", STUBBORN.format(tmp_path)))
        await eventually(lambda: (tmp_path / "hook").exists())
        assert alive(tmp_path / "hook") and alive(tmp_path / "child")
        group.cancel_scope.cancel()
    assert not alive(tmp_path / "hook")
    await eventually(lambda: not alive(tmp_path / "child"), within_s=30)


async def test_what_a_hook_leaves_in_the_background_does_not_hold_it_up(tmp_path: Path) -> None:
    with anyio.fail_after(120):
        await ran(hooks("Stop", f"sleep 600 & echo $! > {tmp_path}/child"), "Stop", {})
    os.kill(int((tmp_path / "child").read_text()), 9)


async def test_a_hook_can_be_a_program_with_arguments(tmp_path: Path) -> None:
    await ran(hooks("Stop", "touch", args=[f"{tmp_path}/a b"]), "Stop", {})
    assert (tmp_path / "a b").exists()
