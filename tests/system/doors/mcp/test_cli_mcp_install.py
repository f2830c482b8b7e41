"""`bullpen mcp install` and `uninstall`, as a person types them."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import time

import pytest

from support.doors.people import BULLPEN, DEADLINE_S, Install, Person

NAMED = ("--team", "alpha", "--as", "carol")


def at_terminal(person: Person, *words: str, answer: str) -> tuple[int, str]:
    """Run a command at a terminal and answer its question; the exit code and what it wrote."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [str(BULLPEN), *words],
        env=person.env,
        cwd=person.project,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    written, until = b"", time.monotonic() + DEADLINE_S
    try:
        while time.monotonic() < until:
            if not select.select([ours], [], [], 1)[0]:
                continue
            try:
                chunk = os.read(ours, 65536)
            except OSError:
                break  # So Linux says that the last process has closed the terminal.
            written += chunk
            if answer and b"[y/N]" in written:
                os.write(ours, f"{answer}\n".encode())
                answer = ""
        return process.wait(DEADLINE_S), written.decode()
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_an_install_shows_the_file_and_the_entry_and_what_comes_next(
    person: Person, install: Install
) -> None:
    # The usual home is not written, even if it is named.
    said = install("claude", "--home", str(person.home / ".bullpen")).splitlines()
    path = person.project / ".mcp.json"
    assert said[0] == f"{path} (a new file):"
    assert said[1:-1] == [f"+ {line}" for line in _lines(path)]
    assert said[-1] == (
        f"Wrote {path}. Start Claude Code in this directory and approve the server when asked."
    )
    assert json.loads(path.read_text(encoding="utf-8")) == {
        "mcpServers": {
            "bullpen": {
                "type": "stdio",
                "command": str(BULLPEN),
                "args": ["mcp", "--team", "alpha", "--as", "carol"],
            }
        }
    }


def _lines(path: os.PathLike[str]) -> list[str]:
    """The lines of the entry in a file that has nothing else."""
    with open(path, encoding="utf-8") as file:
        return [line.removeprefix("    ") for line in file.read().splitlines()[2:-2]]


def test_another_home_and_other_tools_are_in_the_entry(person: Person) -> None:
    home = str(person.home / "elsewhere")
    person.said("team", "create", "alpha", "--home", home)
    words = ("--tools", "read-only", "--home", "../home/elsewhere", "--yes")
    person.said("mcp", "install", "gemini", *NAMED, *words)
    told = json.loads((person.project / ".gemini/settings.json").read_text(encoding="utf-8"))
    entry = told["mcpServers"]["bullpen"]
    assert entry["args"][-2:] == ["--tools", "read-only"]
    assert entry["env"] == {"BULLPEN_HOME": home}


def test_without_a_terminal_nothing_is_written_without_yes(person: Person, team: str) -> None:
    done = person.bullpen("mcp", "install", "claude", *NAMED)
    assert done.returncode == 2
    assert "configuration of another program, and there is no terminal to confirm it" in done.stderr
    assert not (person.project / ".mcp.json").exists()


def test_a_dry_run_shows_it_and_writes_nothing(person: Person, team: str) -> None:
    said = person.said("mcp", "install", "opencode", *NAMED, "--dry-run")
    assert '+   "type": "local",' in said
    assert said.endswith("Nothing was written.\n")
    told = json.loads(person.said("mcp", "install", "opencode", *NAMED, "--dry-run", "--json"))
    assert (told["written"], told["removed"]) == (False, None)
    assert os.listdir(person.project) == []


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 2), ("", 2)])
def test_a_person_is_shown_it_and_asked(person: Person, team: str, answer: str, code: int) -> None:
    # An empty line is a no.
    done = at_terminal(person, "mcp", "install", "claude", *NAMED, answer=answer or " ")
    path = person.project / ".mcp.json"
    assert done[0] == code, done[1]
    assert done[1].index('"bullpen"') < done[1].index(f"Write {path}? [y/N]")
    assert path.exists() == (code == 0)


def test_what_cannot_be_connected_is_refused_before_anything_is_shown(
    person: Person, team: str
) -> None:
    no_team = person.bullpen("mcp", "install", "claude", "-t", "beta", "--as", "carol", "--yes")
    assert no_team.returncode == 3
    bad_name = person.bullpen("mcp", "install", "claude", "-t", "alpha", "--as", "a b", "--yes")
    assert bad_name.returncode == 2
    unknown = person.bullpen("mcp", "install", "emacs", *NAMED, "--yes")
    assert unknown.returncode == 2
    assert os.listdir(person.project) == []


def test_an_agent_cannot_connect_a_program(person: Person, team: str) -> None:
    agent = {"BULLPEN_NONCE": "n-1", "BULLPEN_AGENT": "carol", "BULLPEN_TEAM": "alpha"}
    for words in (("install", "claude"), ("uninstall", "claude")):
        done = person.bullpen("mcp", *words, "--yes", **agent)
        assert done.returncode == 2, done.stderr
        assert "An agent cannot" in done.stderr
    assert os.listdir(person.project) == []


def test_it_connects_nothing_that_could_not_be_served(person: Person, team: str) -> None:
    """Without the library of the protocol the entry would start a server that only fails."""
    (person.project / "sitecustomize.py").write_text(
        "import importlib.util as u\nfound = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'mcp' else found(name, *rest)\n",
        encoding="utf-8",
    )
    done = person.bullpen(
        "mcp", "install", "claude", *NAMED, "--yes", PYTHONPATH=str(person.project)
    )
    assert done.returncode == 5
    assert "bullpen[mcp]" in done.stderr
    assert not (person.project / ".mcp.json").exists()
