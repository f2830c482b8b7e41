"""Makes the pictures in this folder: real runs in a real terminal, as they looked.

python docs/images/make.py [NAME...]

The one of two machines needs root, for their networks, and goose on the PATH; that of the browser
needs Chromium.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
WIDTH, HEIGHT = 100, 30
LONGEST_S = 180
THE_END = "=the=end="

THEME = TerminalTheme(
    (13, 17, 23),
    (201, 209, 217),
    [
        (72, 79, 88),
        (255, 123, 114),
        (86, 211, 100),
        (227, 179, 65),
        (121, 192, 255),
        (210, 168, 255),
        (86, 212, 221),
        (201, 209, 217),
    ],
)
# As rich makes them, but with the fonts that the reader has: nothing is fetched from anywhere.
SVG = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
  font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px;
  line-height: {line_height}px;
}}
.{unique_id}-title {{
  font: bold 16px system-ui, "Segoe UI", "DejaVu Sans", sans-serif;
}}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


@dataclass(frozen=True, slots=True)
class Shot:
    """A command, and a text that the screen shows when its picture is taken.

    With `example` it is no command of Bullpen but a program in that folder of the examples. `first`
    is the first teammate of a team, whose work the picture shows.
    """

    name: str
    command: tuple[str, ...]
    telling: str
    example: str | None = None
    first: str | None = None


SHOTS = (
    Shot("demo", ("demo",), "1 of 5 tests fails", first="ada"),
    Shot(
        "run",
        (
            *("run", "Greet the world", "--team", "greeters"),
            *("--driver", "scripted", "--script", "scripted-team.toml"),
            *("--mode", "bypassPermissions"),
        ),
        "Please write Hello",
        first="alice",
    ),
    Shot(
        "asks",
        (
            *("run", "Greet the world", "--team", "greeters", "--timeout", "15"),
            *("--driver", "scripted", "--script", "scripted-team.toml"),
        ),
        "2 waiting for you",
        first="alice",
    ),
    Shot("two-machines", ("play.py",), "ann is ready again", example="two-machines"),
)


WATCHED = (
    *("run", "Greet the world", "--team", "greeters", "--timeout", "60", "--approver", "human"),
    *("--driver", "scripted", "--script", "scripted-team.toml", "--backend", "subprocess"),
)
"""A team that waits for somebody: what the pictures of screens are of."""


class Terminal:
    """A terminal that nobody looks at: a tmux server of its own."""

    def __init__(self, folder: Path) -> None:
        self._socket = str(folder / "screen")
        self._folder = folder

    def start(self, command: str, env: dict[str, str]) -> None:
        """Run a command line in a shell; what it leaves on the screen stays."""
        settings = [f"-e{name}={value}" for name, value in env.items()]
        size = ("-x", str(WIDTH), "-y", str(HEIGHT))
        words = ["new-session", "-d", *size, "-c", str(self._folder), *settings]
        options = [*("set-option", "-g", "default-terminal", "screen-256color", ";")]
        options += [*("set-option", "-g", "status", "off", ";")]
        line = f"{command}; echo {THE_END}; exec sleep {2 * LONGEST_S}"
        self._tmux(*options, *words, "--", "sh", "-c", line)

    def screen(self) -> str:
        """What it shows now, with all colours."""
        return self._tmux("capture-pane", "-p", "-e")

    def whole(self) -> str:
        """The same with the blanks at the ends of lines, which may have a colour."""
        return self._tmux("capture-pane", "-p", "-e", "-N")

    def type(self, *keys: str) -> None:
        """Press keys."""
        self._tmux("send-keys", *keys)

    def scrolled(self) -> str:
        """What it shows and what was shown above that."""
        return self._tmux("capture-pane", "-p", "-e", "-S", "-")

    def close(self) -> None:
        """End it and what runs in it."""
        self._tmux("kill-server")

    def _tmux(self, *words: str) -> str:
        server = ("tmux", "-u", "-S", self._socket, "-f", os.devnull, "start-server", ";")
        return subprocess.run(  # noqa: S603
            [*server, *words],
            check=True,
            capture_output=True,
            encoding="utf-8",
            timeout=30,
            env={**os.environ, "LANG": "C.UTF-8"},
        ).stdout


@contextmanager
def terminal() -> Iterator[tuple[Terminal, Path]]:
    """A terminal in a folder of its own. Both are gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="bullpen-pictures-"))
    opened = Terminal(folder)
    try:
        yield opened, folder
    finally:
        opened.close()
        shutil.rmtree(folder)


def take(shot: Shot) -> None:
    """Make the two pictures of a command: at work, and at its end."""
    with terminal() as (opened, folder):
        shutil.copy(ROOT / "examples" / "scripted-team.toml", folder)
        typed = "bullpen" if shot.example is None else "python"
        said = shlex.quote(f"$ {shlex.join((typed, *shot.command))}\n")
        words = ("-m", "bullpen", *shot.command)
        if shot.example is not None:
            words = (str(ROOT / "examples" / shot.example / shot.command[0]), *shot.command[1:])
        run = shlex.join((sys.executable, *words))
        env = {
            "BULLPEN_HOME": str(folder / "home"),
            "TMUX_TMPDIR": str(folder),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "COLORTERM": "truecolor",
        }
        opened.start(f"printf %s {said}; {run}", env)
        draw(shot.name, best(opened, shot))
        draw(f"{shot.name}-end", opened.scrolled())


@contextmanager
def watched(folder: Path) -> Iterator[dict[str, str]]:
    """A team at work in a folder, which waits for a person; the environment it is found in."""
    shutil.copy(ROOT / "examples" / "scripted-team.toml", folder)
    env = {
        "BULLPEN_HOME": str(folder / "home"),
        "HOME": str(folder),
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
    }
    bullpen = (sys.executable, "-m", "bullpen")
    with open(folder / "run.log", "wb") as log:
        running = subprocess.Popen(  # noqa: S603
            (*bullpen, *WATCHED), cwd=folder, env=env, stdout=log, stderr=log
        )
    try:
        wait_for((folder / "home/teams/greeters/config.json").exists)
        yield env
    finally:
        running.terminate()
        running.wait(60)


def take_tui() -> None:
    """Make the picture of the screen in a terminal."""
    with terminal() as (opened, folder), watched(folder) as env:
        line = shlex.join((sys.executable, "-m", "bullpen", "tui", "-t", "greeters"))
        opened.start(line, {**env, "TMUX_TMPDIR": str(folder), "COLORTERM": "truecolor"})
        wait_for(lambda: "2 waiting for you" in opened.screen())
        opened.type("S-Down")
        wait_for(lambda: looks_at(Text.from_ansi(opened.screen()).plain, "alice"))
        draw("tui", opened.whole())


def take_web() -> None:
    """Make the picture of the page in a browser."""
    # Only for this one: nobody else needs it.
    from playwright.sync_api import sync_playwright

    with terminal() as (_, folder), watched(folder) as env:
        words = (sys.executable, "-m", "bullpen", "web", "-t", "greeters", "--json")
        served = folder / "web.json"
        with open(served, "wb") as file:
            serving = subprocess.Popen(words, env=env, stdout=file, cwd=folder)  # noqa: S603
        try:
            wait_for(lambda: served.read_text(encoding="utf-8").rstrip().endswith("}"))
            url = json.loads(served.read_text(encoding="utf-8"))["url"]
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
                page = browser.new_page(viewport={"width": 1280, "height": 800})
                page.goto(url)
                page.goto(f"{url.partition('?')[0]}?member=alice")
                page.get_by_text("1 more waits for you").wait_for()
                # A request takes keys a moment after it came up, and then shows which.
                page.locator(".ask.ready").wait_for()
                page.screenshot(path=HERE / "web.png")
                browser.close()
        finally:
            serving.terminate()
            serving.wait(60)


def wait_for(holds: Callable[[], bool]) -> None:
    """Look again and again until something holds."""
    deadline = time.monotonic() + LONGEST_S
    while not holds():
        if time.monotonic() > deadline:
            sys.exit("It did not come to what the picture is to show.")
        time.sleep(0.2)


def looks_at(plain: str, member: str) -> bool:
    """Whether the screen shows the work of a member."""
    return any("╮╭─" in line and f" {member} " in line for line in plain.splitlines())


def best(opened: Terminal, shot: Shot) -> str:
    """Look on until the end, and pick the screen that tells most."""
    screens: dict[tuple[bool, int, int], str] = {}
    pressed = 0.0
    deadline = time.monotonic() + LONGEST_S
    while time.monotonic() < deadline:
        screen = opened.whole()
        plain = Text.from_ansi(screen).plain
        if THE_END in plain:
            return screens[max(screens)]
        if shot.first is not None and f"{shot.first} " in plain and not looks_at(plain, shot.first):
            if time.monotonic() - pressed > 1:
                pressed = time.monotonic()
                opened.type("S-Down")
            continue
        if "the time is up" in plain:
            continue
        busy = [line for line in plain.splitlines() if line.strip("│ ").startswith(("● ", "◐ "))]
        told = sum(bool(line.strip("│╭╮╰╯─ ")) for line in plain.splitlines())
        screens.setdefault((shot.telling in plain, len(busy), told), screen)
        time.sleep(0.05)
    sys.exit(f"It did not end. The screen shows:\n{opened.screen()}")


def draw(name: str, screen: str) -> None:
    """Write what a terminal showed as a picture."""
    text = Text.from_ansi(screen.split(THE_END)[0].rstrip())
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        console = Console(width=WIDTH, record=True, file=nowhere, force_terminal=True)
        console.print(text, no_wrap=True, crop=False)
        svg = console.export_svg(
            title="bullpen", theme=THEME, code_format=SVG, unique_id=f"bullpen-{name}"
        )
    (HERE / f"{name}.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    for each in SHOTS:
        if each.name in sys.argv[1:] or not sys.argv[1:]:
            take(each)
    for name, taking in (("tui", take_tui), ("web", take_web)):
        if name in sys.argv[1:] or not sys.argv[1:]:
            taking()
