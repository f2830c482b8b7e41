"""Records five journeys of a person through a run, in a real terminal, on simulated models.

python docs/images/journeys.py [NAME...]

Bullpen, its screen, its agents and git are real; only the models' answers are written down here.
Each journey draws its pictures and prints how many keys were pressed, and how many seconds it took
from the first command to the first useful thing on the screen.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

# This folder is no package: a program in it finds the other one as its neighbour.
from make import THE_END, Terminal, draw, terminal
from rich.text import Text

from bullpen.testing.models import Call, Fault, MockModels, ModelRequest, Playbook, Reply

RIGHT_KEY, WRONG_KEY = "sk-right", "sk-wrong"
SEEN_WITHIN_S = 60.0
READS_S = 1.0
"""How long somebody looks at a question at least; a key in the same moment would not count."""

SCREEN = "you →"
"""What the screen of a team shows and a shell does not."""

TAPES: Path | None = None
"""The directory in which the runs are recorded as tapes, if they are."""

SEEN = "It splits at spaces, so the words of a comment become tokens."
COSTS = "Say what a change costs later, such as a new field."

BODY = "    return text.split()\n"
FIXED = '    code, _, comment = text.partition("#")\n    return code.split()\n'

PROJECT = {
    "src/lex.py": f'def tokens(text):\n    """The words of a program."""\n{BODY}',
    ".gitignore": "__pycache__/\n.pytest_cache/\n",
    "Makefile": "test:\n\t@sleep 600\n",
    "tests/test_lex.py": (
        "from src.lex import tokens\n\n\n"
        'def test_a_comment_is_no_token():\n    assert tokens("a # b") == ["a"]\n'
    ),
}


@dataclass
class Person:
    """Somebody at a terminal. What they press is counted, and when they see what is timed."""

    opened: Terminal
    name: str
    keys: int = 0
    began: float = field(default_factory=time.monotonic)
    first_s: float | None = None

    def types(self, text: str) -> None:
        """Type a text, without Enter."""
        self.keys += len(text)
        self.opened.type("-l", text)

    def presses(self, *keys: str) -> None:
        """Press keys by their names."""
        self.keys += len(keys)
        self.opened.type(*keys)

    def answers(self, key: str) -> None:
        """Read what is asked, then press the key that answers it."""
        time.sleep(READS_S)
        self.presses(key)

    def looks(self, key: str, at: str) -> None:
        """Look at something else for a picture. It is not part of the journey: not counted."""
        self.opened.type(key)
        self.sees(at)

    def enters(self, text: str) -> None:
        """Type a line."""
        self.types(text)
        self.presses("Enter")

    def sees(self, *texts: str, useful: bool = False, gone: str | None = None) -> None:
        """Wait until the screen shows all of this, and no longer what is gone."""
        deadline = time.monotonic() + SEEN_WITHIN_S
        while True:
            shown = " ".join(Text.from_ansi(self.opened.screen()).plain.split())
            if all(text in shown for text in texts) and (gone is None or gone not in shown):
                break
            if time.monotonic() > deadline:
                sys.exit(f"{self.name}: never seen: {texts}\n{self.opened.screen()}")
            time.sleep(0.05)
        if useful and self.first_s is None:
            self.first_s = time.monotonic() - self.began

    def finishes(self) -> None:
        """End the conversation; what comes back is the shell."""
        self.enters("/finish")
        self.sees("$", gone=SCREEN)

    def leaves(self) -> None:
        """Stop whatever still runs, also after an error, and leave the shell."""
        for key in ("C-c", "C-c", "C-c", "C-u"):
            self.opened.type(key)
            time.sleep(0.3)
        deadline = time.monotonic() + SEEN_WITHIN_S
        while THE_END not in self.opened.screen() and time.monotonic() < deadline:
            # The shell reads it when the program in front has ended.
            self.opened.type("C-c")
            self.opened.type("exit", "Enter")
            time.sleep(1.0)

    def draws(self, what: str) -> None:
        """Keep what the screen shows as a picture."""
        draw(f"journey-{self.name}-{what}", self.opened.whole())


class Reader:
    """The part of an agent that answers what it reads: an opening, then each answer once."""

    def __init__(
        self, opening: Reply | str, answers: Mapping[str, Reply | str], *, otherwise: str
    ) -> None:
        self._opening: Reply | str | None = opening
        self._answers = dict(answers)
        self._otherwise = otherwise

    def __call__(self, request: ModelRequest) -> Reply | str:
        """Return the answer to what is new in the request."""
        opening, self._opening = self._opening, None
        if opening is not None:
            return opening
        given = request.given
        word = next((word for word in self._answers if word in given), None)
        return self._otherwise if word is None else self._answers.pop(word)


@contextmanager
def shell(
    name: str, brain: Callable[[ModelRequest], Reply | Fault], *, key: str = RIGHT_KEY
) -> Iterator[Person]:
    """A person before a shell in a small project, whose agents get their answers from `brain`."""
    with terminal() as (opened, folder), MockModels(brain) as models:
        project = folder / "shop"
        _make(project)
        env = {
            "ANTHROPIC_BASE_URL": models.url,
            "ANTHROPIC_API_KEY": key,
            "BULLPEN_HOME": str(folder / "home"),
            "HOME": str(folder),
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "TERM": "tmux-256color",
            "COLORTERM": "truecolor",
            "PS1": "$ ",
        }
        # Nothing of the environment of this program: it may have other keys, and teams.
        if TAPES is not None:
            env["BULLPEN_RECORD"] = str(TAPES)
        clean = ["env", "-i", *(f"{key}={value}" for key, value in env.items())]
        line = shlex.join([*clean, "bash", "--norc", "--noprofile", "-i"])
        opened.start(f"cd {shlex.quote(str(project))}; {line}", {})
        person = Person(opened, name)
        person.sees("$")
        try:
            yield person
        finally:
            person.leaves()


def _make(project: Path) -> None:
    for name, text in PROJECT.items():
        file = project / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    for words in (
        ("init", "--quiet", "--initial-branch=main"),
        ("config", "user.name", "Una"),
        ("config", "user.email", "una@example.org"),
        ("add", "--all"),
        ("commit", "--quiet", "-m", "Begin"),
    ):
        git = ("git", "-C", str(project), *words)
        subprocess.run(git, check=True, capture_output=True)  # noqa: S603


def _say(to: str, text: str) -> Call:
    return Call("SendMessage", {"to": to, "summary": text.split(".")[0], "message": text})


def _bash(command: str) -> Call:
    return Call("Bash", {"command": command})


READ = Call("Read", {"file_path": "src/lex.py"})
FIX = Call("Edit", {"file_path": "src/lex.py", "old_string": BODY, "new_string": FIXED})


def wrong_key() -> Person:
    """The first run, with a key that the API rejects, then with the right one."""
    play = Playbook({"team-lead": (Reply("I will read the tokenizer first.", (READ,)), SEEN)})

    def brain(request: ModelRequest) -> Reply | Fault:
        said = request.headers.get("x-api-key") or request.headers.get("authorization") or ""
        return play(request) if said.endswith(RIGHT_KEY) else Fault.unauthorized()

    with shell("key", brain, key=WRONG_KEY) as person:
        person.enters("bullpen run 'Make the tests pass'")
        person.sees("API key", "401", "ANTHROPIC_API_KEY", useful=True)
        person.sees("$ bullpen run", gone=SCREEN)
        person.draws("wrong")
        person.enters(f"export ANTHROPIC_API_KEY={RIGHT_KEY}")
        person.presses("Up", "Up", "Enter")
        person.sees("I will read the tokenizer first.", "Read src/lex.py", SEEN)
        person.draws("right")
        person.finishes()
    return person


def questions() -> Person:
    """A goal with three questions, each answered with one key."""
    parts = {
        "team-lead": (
            Reply("I will fix the tokenizer, then test it.", (READ,)),
            Reply("A comment is not a token, so I leave it out.", (FIX,)),
            Reply("Now the tests.", (_bash("python -m pytest -q"),)),
            Reply("", (_bash("git commit -qam 'Leave comments out'"),)),
            "Done: comments are no longer tokens, and the tests pass.",
        )
    }
    with shell("questions", Playbook(parts)) as person:
        person.enters("bullpen run 'Make the tests pass'")
        person.sees("I will fix the tokenizer", useful=True)
        for number, asked in enumerate(("change src/lex.py", "python -m pytest", "git commit"), 1):
            person.sees(f"wants to {'change' if number == 1 else 'run'}", asked, "[a]llow")
            if number == 2:
                person.draws("asked")
            person.answers("a")
        person.sees("the tests pass.", "idle", gone="[a]llow")
        person.draws("done")
        person.looks("F3", "code.split()")
        person.draws("diff")
        person.looks("F2", "the tests pass.")
        person.finishes()
    return person


def debate() -> Person:
    """Two agents who argue, and a person who steers them twice by typing."""
    spawned = [
        Call("SpawnTeammate", {"name": name, "prompt": f"Argue for {what} with {other}."})
        for name, other, what in (("ann", "bob", "SQLite"), ("bob", "ann", "plain files"))
    ]
    lead = Reader(
        Reply("ann argues for SQLite, bob for plain files.", spawned),
        {
            "change later": Reply("", [_say("ann", COSTS), _say("bob", COSTS)]),
            "0.8 ms": "Decision: plain files. They are fast enough and simple to change.",
        },
        otherwise="I am following the debate.",
    )
    ann = Reader(
        # By then bob has started.
        Reply("", [_say("bob", "SQLite leaves no half-written file.")], delay_s=3.0),
        {
            "rename": Reply("", [_say("bob", "And two writers at once? SQLite locks.")]),
            "costs later": Reply("", [_say("bob", "One ALTER TABLE for each new field.")]),
        },
        otherwise="Your turn, bob.",
    )
    bob = Reader(
        "You begin, ann.",
        {
            "half-written": Reply("", [_say("ann", "Write a new file, then rename it.")]),
            "costs later": Reply("", [_say("ann", "A default for the field, in one line.")]),
            "measure": Reply("", [_say("team-lead", "Measured: saving a file takes 0.8 ms.")]),
        },
        otherwise="Your turn, ann.",
    )
    with shell("debate", Playbook({"team-lead": lead, "ann": ann, "bob": bob})) as person:
        person.enters("bullpen run 'SQLite or plain files? Let two argue'")
        person.sees("ann argues for SQLite", useful=True)
        person.sees("I am following the debate.")
        person.enters("What does it cost to change later?")
        person.sees("What does it cost to change later?", "SendMessage ann")
        person.presses("S-Down")
        person.sees("ALTER TABLE")
        person.draws("member")
        person.enters("@bob Do not guess, measure")
        person.presses("S-Up")
        person.sees("Decision: plain files.")
        person.draws("decided")
        person.finishes()
    return person


def plan() -> Person:
    """A plan that is rejected with a reason, revised and approved."""
    first = "# Split the tokenizer\n\n1. Write a new module `scan.py`\n2. Delete `lex.py`\n"
    second = "# Split the tokenizer\n\n1. Move comments to `comments.py`\n2. Keep `lex.py`\n"
    parts = {
        "team-lead": (
            Reply("I will read the code before I plan.", (READ,)),
            Reply("", (Call("ExitPlanMode", {"plan": first}),)),
            "My plan is ready for you.",
            Reply("Then lex.py stays.", (Call("ExitPlanMode", {"plan": second}),)),
            "My new plan is ready for you.",
            "I will start with the comments.",
        )
    }
    with shell("plan", Playbook(parts)) as person:
        person.enters("bullpen run 'Split the tokenizer' --mode plan")
        person.sees("I will read the code before I plan.", useful=True)
        person.sees("scan.py", "[a]", "Delete")
        person.draws("first")
        person.answers("d")
        person.sees("reason")
        person.enters("Others import lex.py: keep it")
        person.sees("comments.py", "[a]")
        person.draws("revised")
        person.answers("a")
        person.sees("I will start with the comments.", "idle")
        person.finishes()
    return person


def stuck() -> Person:
    """An agent that waits for a command that never ends, interrupted and redirected."""
    lead = (
        Reply("I will run the whole suite.", (_bash("make test"),)),
        Reply(
            "Then I run only the tokenizer's tests.",
            (_bash("python -m pytest -q tests/test_lex.py"),),
        ),
        "One test fails: the words of a comment become tokens.",
    )
    with shell("stuck", Playbook({"team-lead": lead})) as person:
        person.enters("bullpen run 'Why does the suite fail?'")
        person.sees("I will run the whole suite.", useful=True)
        person.sees("make test", "[a]llow")
        person.answers("a")
        person.sees("working", "Bash make test", gone="[a]llow")
        person.draws("stuck")
        person.presses("Escape")
        person.sees("Interrupted")
        person.enters("That waits for a server. Run only tests/test_lex.py")
        person.sees("pytest", "[a]llow")
        person.answers("a")
        person.sees("1 failed", "One test fails", "idle")
        person.draws("redirected")
        person.finishes()
    return person


JOURNEYS: Mapping[str, Callable[[], Person]] = {
    "key": wrong_key, "questions": questions, "debate": debate, "plan": plan, "stuck": stuck,
}  # fmt: skip


def main(names: list[str]) -> None:
    """Record the journeys with these names, or all, and print the table."""
    print("| journey | keys | seconds to the first useful thing |\n| --- | --- | --- |")
    for name, record in JOURNEYS.items():
        if name in names or not names:
            person = record()
            print(f"| {name} | {person.keys} | {person.first_s or 0:.1f} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
