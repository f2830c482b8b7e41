"""Judges a change with the hidden tests: in a fresh clone, in a sandbox, after the agents ended."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bullpen.errors import Invalid
from bullpen.protocol.policy import Sandbox
from bullpen.runs.eval.clones import (
    NotCopied,
    apply_solution,
    copy_files,
    make_clone,
    put_back,
    take_change,
    touched_by_solution,
)
from bullpen.runs.eval.judging import judged, outcomes_in
from bullpen.runs.eval.suite import SOLUTION_SCRIPT, EvalTask
from bullpen.sandbox.command import sandboxed_command
from bullpen.sandbox.inner_environment import inner_environment
from bullpen.workspace.git.run_git import GitFailed

_OUTPUT_BYTES_MAX = 200_000
_RESULT_BYTES_MAX = 20_000_000
_LOOK_S = 60.0
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ")


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the hidden tests said."""

    passed: bool
    why: str
    patch: str
    touched: tuple[str, ...]
    put_back: tuple[str, ...]
    output: str


def judge(task: EvalTask, worked: Path, folder: Path, environ: Mapping[str, str]) -> Judgement:
    """Run the hidden tests on the files of a clone. Blocks.

    `folder` is made for it. Raises Unavailable if the sandbox cannot be used.
    """
    clone, out = folder / "clone", folder / "out"
    make_clone(task, clone)
    out.mkdir()
    try:
        patch, touched = take_change(worked, clone)
    except (NotCopied, GitFailed) as error:
        # That is up to the agents: an error would count for no arm, and be run again.
        if "No space left" in str(error):
            raise
        return Judgement(False, f"its files cannot be judged: {error}", "", (), (), "")
    of_solution = touched_by_solution(task)
    restored = put_back(clone, [each for each in touched if each not in of_solution], task.protect)
    copy_files(task.hidden, clone)
    said = _command(task, out)
    code, output = _run(said, clone, out, task, environ)
    passed, why = judged(
        code,
        outcomes=outcomes_in(_read(out / "junit.xml")),
        reward=_read(out / "reward.txt"),
        must_pass=task.must_pass,
        wants_outcomes="{junit}" in task.test,
        wants_reward="{reward}" in task.test,
    )
    return Judgement(passed, why, patch, tuple(touched), tuple(restored), output)


def solve(task: EvalTask, clone: Path, folder: Path, environ: Mapping[str, str]) -> None:
    """Make the known change in a clone: by its patch, its files or its script. Blocks.

    Raises:
        Invalid: there is no known solution, or its script fails.
    """
    script = task.folder / SOLUTION_SCRIPT
    if not script.is_file():
        apply_solution(task, clone)
        return
    out = folder / "solving"
    out.mkdir(parents=True)
    shutil.copyfile(script, out / SOLUTION_SCRIPT)
    code, output = _run(
        f"bash {shlex.quote(str(out / SOLUTION_SCRIPT))}", clone, out, task, environ
    )
    if code != 0:
        raise Invalid(
            f"The script that solves {task.name!r} ended with {code}: {output[-300:].strip()}",
            remedy="Correct the task, or leave out the arm oracle.",
        )


def _command(task: EvalTask, out: Path) -> str:
    files = [shlex.quote(each) for each in test_files(task.hidden)]
    filled = {
        "{files}": " ".join(files),
        "{junit}": shlex.quote(str(out / "junit.xml")),
        "{reward}": shlex.quote(str(out / "reward.txt")),
        "{out}": shlex.quote(str(out)),
    }
    text = task.test
    for name, value in filled.items():
        text = text.replace(name, value)
    return text


def test_files(hidden: Path) -> list[str]:
    """Return the hidden files that are named like tests, relative to the project."""
    names = [path for path in sorted(hidden.rglob("*")) if path.is_file()]
    return [str(path.relative_to(hidden)) for path in names if is_test_name(path.name)]


def is_test_name(name: str) -> bool:
    """Return whether a file is named like a module of tests that a command can be given."""
    stem, _, suffix = name.partition(".")
    return bool(suffix) and (
        stem.startswith("test_")
        or stem.endswith(("_test", "_spec"))
        or suffix.startswith(("test.", "spec."))
    )


def _run(
    command: str, clone: Path, out: Path, task: EvalTask, environ: Mapping[str, str]
) -> tuple[int | None, str]:
    """Run the tests in a sandbox; the exit code, None after the time limit, and the output."""
    env = {name: environ[name] for name in _KEPT if name in environ}
    words = sandboxed_command(
        ["/bin/sh", "-c", command],
        cwd=str(clone),
        directories=[str(out)],
        sandbox=Sandbox.new(read=list(task.read)),
        env=env,
    )
    inner = {**inner_environment(env), "PYTHONDONTWRITEBYTECODE": "1"}
    with (out / "output.log").open("w+b") as output:
        process = subprocess.Popen(  # noqa: S603 - no shell, our own words
            words,
            cwd=clone,
            env=inner,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code: int | None = process.wait(task.test_timeout_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _end(process)
        output.seek(max(0, os.fstat(output.fileno()).st_size - _OUTPUT_BYTES_MAX))
        return code, output.read().decode("utf-8", "replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the sandbox, and with it everything in it."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _read(path: Path) -> str:
    """Return what the tests wrote; nothing if that is no ordinary file, or a very long one."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with open(descriptor, "rb") as file:
        try:
            data = file.read(_RESULT_BYTES_MAX + 1)
        except OSError:
            return ""
    return "" if len(data) > _RESULT_BYTES_MAX else data.decode("utf-8", "replace")


def readable_inside(
    paths: Sequence[Path], worked: Path, sandbox: Sandbox, environ: Mapping[str, str], home: Path
) -> list[str]:
    """Return which paths a command in the sandbox of agents could see. Blocks.

    Raises Unavailable if the sandbox cannot be used.
    """
    look = 'for each in "$@"; do if [ -e "$each" ]; then echo "$each"; fi; done; echo looked'
    env = {name: environ[name] for name in _KEPT if name in environ}
    words = sandboxed_command(
        ["/bin/sh", "-c", look, "look", *map(str, paths)],
        cwd=str(worked),
        directories=(),
        sandbox=sandbox,
        env=env,
        hide=[str(home)],
    )
    try:
        done = subprocess.run(  # noqa: S603 - no shell, our own words
            words,
            cwd=worked,
            env=inner_environment(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LOOK_S,
            check=False,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        return [str(path) for path in paths]
    said = done.stdout.decode("utf-8", "surrogateescape").splitlines()
    # Not to have looked is not the same as to have found nothing.
    return said[:-1] if said[-1:] == ["looked"] else [str(path) for path in paths]
