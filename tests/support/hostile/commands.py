"""Hostile command lines: what gets past an allow list, if anything does.

Each of `COMMANDS` does something that none of `ALLOWED` is about: it runs another program, writes a
file, or reads a secret. `{canary}` stands for a file outside the project that does not exist and
must not appear, `{secret}` for one that must not be read; put paths in with `aimed`. A line touches
nothing but these two and the project that `lay_out` makes, so that it may be run for real.
"""

from __future__ import annotations

import os
from pathlib import Path

from .by_hand import BY_HAND
from .options import OPTIONS

ALLOWED = (
    "Bash(git status:*)",
    "Bash(git log:*)",
    "Bash(ls:*)",
    "Bash(echo:*)",
    "Bash(npm test)",
    "Bash(python -m pytest:*)",
)

# What does the harm: one command each.
PAYLOADS = (
    "touch {canary}",
    "/bin/touch {canary}",
    "/usr/bin/touch -- {canary}",
    "> {canary}",
    ": > {canary}",
    "echo x > {canary}",
    "echo x >> {canary}",
    "echo x >| {canary}",
    "echo x &> {canary}",
    "echo x &>> {canary}",
    "echo x >& {canary}",
    "echo x 2> {canary}",
    "ls <> {canary}",
    "git log > link/canary",
    "ls < {secret}",
    "cat {secret}",
    "cp {secret} {canary}",
    "ln -s /dev/null {canary}",
    "tee {canary} < /dev/null",
    "dd if=/dev/null of={canary}",
    "install -m 600 /dev/null {canary}",
    "mkdir -p {canary}",
    "sh -c 'touch {canary}'",
    "bash -c 'echo x > {canary}'",
    "env touch {canary}",
    "env -S 'touch {canary}'",
    "env -i /bin/touch {canary}",
    "nohup touch {canary}",
    "timeout 5 touch {canary}",
    "command touch {canary}",
    "exec touch {canary}",
    "eval 'touch {canary}'",
    "builtin eval 'touch {canary}'",
    "xargs touch {canary} < /dev/null",
    "find . -maxdepth 0 -exec touch {canary} ';'",
    "find . -maxdepth 0 -fprint {canary}",
    'python -c \'open("{canary}", "w")\'',
    'python3 -c \'open("{canary}", "w")\'',
    "perl -e 'open F, \">{canary}\"'",
    "awk 'BEGIN { print > \"{canary}\" }'",
    "sed -n 'w {canary}' file.txt",
    "sort -o {canary} file.txt",
    "git log --output={canary}",
    "git -c core.fsmonitor='touch {canary};' status",
    "git -c alias.x='!touch {canary}' x",
    "git init {canary}",
    "PATH=. git status",
    "A=$(touch {canary}) git status",
    "npm test --script-shell=./evil",
    "python -m pytest --junitxml={canary}",
    "./evil",
    "$PWD/evil",
    "/proc/self/cwd/evil",
    "source ./evil",
    ". ./evil",
)

# Where it hides. The payload takes the place of the @.
WRAPPERS = (
    "@",
    "git status; @",
    "git status;@",
    "git status && @",
    "git status &&\\\n@",
    "ls /nowhere || @",
    "git status | @",
    "git status |& @",
    "git status & @",
    "git status\n@",
    "git status\n\n\t@\n",
    "@ && git status",
    "@ | git log",
    "echo $(@)",
    'echo "$(@)"',
    'echo "a $(echo "b $(@)")"',
    "echo ${x:-$(@)}",
    'echo "${x:-$(@)}"',
    "git log --format=$(@)",
    "ls <(@)",
    "ls < <(@)",
    "echo x > >(@)",
    "(@)",
    "( git status; ( @ ) )",
    "{ @; }",
    "{ git status; @; } 2>&1",
    "! @",
    "time @",
    "coproc @",
    "if @; then git status; fi",
    "if git status; then @; fi",
    "for i in 1; do @; done",
    "while @; do break; done",
    "until @; do break; done",
    "case x in x) @;; esac",
    "f() { @; }; f",
    "function f { @; }; f",
    "echo a # b\n@",
    "echo it\\'s; @",
    "echo '#'; @",
    'echo "#" ; @ #"',
    "ls <<E\n$(@)\nE",
    "ls <<'E'\nx\nE\n@",
    "ls <<-E\n\tx\n\tE\n@",
    "ls <<A <<B\nB\nA\nA\nB\n@",
    "ls <<< $(@)",
    "echo $(( $(@) + 1 ))",
    "echo ${a[$(@)]}",
    "a=$(@)",
    "a=$(@) git status",
    "[[ -n $(@) ]]",
    "echo {a,$(@)}",
    "git status 2>&1 >/dev/null; @",
    "cd . && @",
    "echo `@`",
    'echo "`@`"',
    "ls <<E\n`@`\nE",
)


def _wrapped() -> tuple[str, ...]:
    lines: list[str] = []
    for wrapper in WRAPPERS:
        for payload in PAYLOADS:
            if "`" in wrapper and ("\\" in payload or '"' in payload):
                # Backticks take escapes away: these lines would not do what they are here for.
                continue
            lines.append(wrapper.replace("@", payload))
    return tuple(lines)


COMMANDS: tuple[str, ...] = tuple(dict.fromkeys((*BY_HAND, *OPTIONS, *_wrapped())))


def aimed(command: str, *, canary: Path, secret: Path) -> str:
    """The command with real paths in it."""
    return command.replace("{canary}", str(canary)).replace("{secret}", str(secret))


def lay_out(project: Path, canary: Path) -> None:
    """Make the project that the commands count on, with traps that need no shell tricks."""
    sub = project / "sub"
    for folder in (project, sub, project / "tests", sub / "objects", sub / "refs"):
        folder.mkdir(parents=True, exist_ok=True)
    (project / "file.txt").write_text("b\na\n", "utf-8")
    (project / "link").symlink_to(canary.parent, target_is_directory=True)
    (project / "dangling").symlink_to(canary)
    # A file that a pattern turns into an option.
    (project / "--output=written").write_text("", "utf-8")
    for name in ("evil", "git", "ls"):
        program = project / name
        program.write_text(f"#!/bin/sh\n: > '{canary}'\n", "utf-8")
        os.chmod(program, 0o755)
    # A folder that git takes for a repository of its own, whose settings run a program.
    (sub / "HEAD").write_text("ref: refs/heads/main\n", "utf-8")
    (sub / "config").write_text(
        "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n"
        f"\tfsmonitor = \"/bin/sh -c ': > {canary}' #\"\n",
        "utf-8",
    )
