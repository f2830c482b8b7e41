"""Find the program that another one runs: `timeout 60 make`, `uv run pytest`, `python -m mypy`."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from bullpen.agents.permissions.shell.harmless.notation import Harmless, Tables
from bullpen.agents.permissions.shell.words import Word

# The operands are those before the program. What the rule names is meant, so the options here say
# only which words are the runner's own.
_RUNNERS = Tables(
    r"""
timeout: -vfpk= -s= --foreground --preserve-status --verbose --kill-after= --signal= *number
env: -i0vu= --ignore-environment --unset= --null --debug --chdir= -C=
nice: -n= -# --adjustment=
ionice: -tc= -n= -p= --class= --classdata= --ignore
nohup, setsid, command, builtin, exec, unbuffer, caffeinate, fakeroot, linux32, linux64: -cfwdimsu
  --ctty --fork --wait
time: -pv --portability --verbose
stdbuf: -i= -o= -e= --input= --output= --error=
chrt: -bfior --batch --fifo --idle --other --rr *number
taskset: -ac= --all-tasks --cpu-list *any
flock: -nsxuoeFw= -E= --nonblock --shared --exclusive --unlock --close --no-fork --verbose --wait=
  --timeout= --conflict-exit-code= *any
xargs: -0rtpxn= -P= -I= -L= -a= -d= -s= -E= --null --no-run-if-empty --verbose --max-args=
  --max-procs= --replace= --max-lines= --arg-file= --delimiter= --max-chars= --exit
npx, bunx: -yq --yes --no --no-install --quiet --bun -p= --package=
npm exec, npm x: -yq --yes --no --quiet -p= --package= *program
pnpm exec, pnpm dlx, yarn exec, yarn dlx, bun x, poetry run, pdm run, hatch run, pipenv run, rye
  run, bundle exec, rbenv exec, pyenv exec, asdf exec, dotnet exec, rustup run, nix-shell, uv tool
  run, uvx, pipx run: -qsvn --quiet --silent --verbose --from= --with= --spec= --python= --offline
  --isolated
uv run: -qvnmsp= -w= --quiet --verbose --frozen --locked --no-sync --all-extras --extra= --group=
  --no-group= --all-groups --no-dev --dev --isolated --offline --active --with= --python=
  --no-project --package= --env-file= --module --no-env-file --exact --refresh --only-group=
  --directory= --with-requirements= --no-default-groups --no-progress
conda run: -n= -p= --name= --prefix= --no-capture-output
direnv exec: *any
mise exec, mise x: *program
coverage run: -apm --append --branch --parallel-mode --source= --omit= --include= --rcfile=
  --module
python: -uBEIsSOqvbdPRm -W= -X=
"""
)

NEVER = frozenset(
    """
    at batch busybox chroot doas entr expect gdb ltrace nsenter parallel perf pkexec prlimit
    proxychains run-parts runuser script setarch setpriv sg start-stop-daemon strace su sudo
    systemd-run toybox unshare watch
    """.split()  # noqa: SIM905 - one name a line would fill the page
)
"""Runners that change too much, or hand their words to a shell: no rule with an open end covers
them."""

_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


def program_name(word: Word) -> str:
    """The name of a program without its directory and, for npx, its version."""
    name = os.path.basename(word.text)
    at = name.find("@", 1)
    return name if at < 0 else name[:at]


def is_runner(words: Sequence[Word]) -> bool:
    """Whether the first words are a program whose purpose is to run another."""
    return _runner_of(words) is not None


def inner_program(words: Sequence[Word]) -> int | None:
    """Where the program is that a runner runs; None if that is unclear or there is none."""
    found = _runner_of(words)
    if found is None:
        return None
    name, spec, at = found
    before = list(spec.operands)
    if before == ["program"]:
        dashes = [i for i, word in enumerate(words) if word.text == "--"]
        return dashes[0] + 1 if dashes and dashes[0] + 1 < len(words) else None
    while at < len(words):
        word = words[at]
        at += 1
        if not word.literal:
            return None
        text = word.text
        if text == "--":
            continue
        if text.startswith("-") and len(text) > 1:
            taken = _taken(text, spec)
            if taken is None:
                return None
            at += taken
        elif name == "env" and (_ASSIGNMENT.match(text) or text == "-"):
            continue
        elif before:
            before.pop(0)
        else:
            return at - 1
    return None


def module_of(words: Sequence[Word], at: int) -> bool:
    """Whether the word at this place is a Python module: it follows -m."""
    return at > 1 and words[at - 1].text in {"-m", "--module"} and _takes_module(words)


def _takes_module(words: Sequence[Word]) -> bool:
    found = _runner_of(words)
    return found is not None and found[0] in {"python", "uv run", "coverage run"}


def _runner_of(words: Sequence[Word]) -> tuple[str, Harmless, int] | None:
    """The runner's name, its own words, and where its options start."""
    name = program_name(words[0])
    if _PYTHON.fullmatch(name):
        options = [word.text for word in words[1:]]
        return ("python", _RUNNERS["python"], 1) if "-m" in options else None
    for count in (3, 2, 1):
        key = " ".join([name, *(word.text for word in words[1:count])])
        if len(words) >= count and key in _RUNNERS:
            return key, _RUNNERS[key], count
    return None


def _taken(text: str, spec: Harmless) -> int | None:
    """How many words after an option belong to it; None if the option is unknown."""
    if text.startswith("--"):
        name, attached, _ = text[2:].partition("=")
        if name not in spec.longs:
            return None
        return 1 if spec.longs[name] and not attached else 0
    if "#" in spec.shorts and text[1:].isdigit():
        return 0
    for at, letter in enumerate(text[1:], start=1):
        if letter not in spec.shorts:
            return None
        if spec.shorts[letter]:
            return 1 if at == len(text) - 1 else 0
    return 0
