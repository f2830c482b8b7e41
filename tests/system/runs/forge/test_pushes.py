"""Work is pushed with the worker's token, and neither repositories nor servers lead it astray."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bullpen.errors import Invalid, Refused
from bullpen.runs.forge import pushes as pushes_module
from bullpen.runs.forge.contract import TryLater
from bullpen.runs.forge.place import check_branch, place_of
from bullpen.runs.forge.pushes import BranchMoved, Pushes
from bullpen.runs.forge.token import Token, body_redactor
from support.forge.git_server import GitServer, git_server
from support.git.canaries import Scene
from support.git.repositories import commit, git

SECRET = "t0ken-of-the-worker-1234567890"
BRANCH = "bullpen/alpha/task-1"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    root = tmp_path / "served"
    (root / "acme").mkdir(parents=True)
    git(root, "init", "--quiet", "--bare", "--initial-branch=main", "acme/shop.git")
    git(root / "acme" / "shop.git", "config", "http.receivepack", "true")
    with git_server(root, SECRET) as state:
        yield state


def pushes(tmp_path: Path, server: GitServer, project: Path, token: str = SECRET) -> Pushes:
    given = Token(token, "test")
    redactor = body_redactor(tmp_path / "home", given, {})
    place = place_of(f"{server.url}/acme/shop")
    return Pushes(tmp_path / "home", place, given, redactor, source=project / ".git")


def head(server: GitServer, branch: str) -> str:
    return git(server.root / "acme" / "shop.git", "rev-parse", f"refs/heads/{branch}")


def test_a_branch_is_created_moved_and_fetched_back(
    tmp_path: Path, server: GitServer, project: Path
) -> None:
    first = git(project, "rev-parse", "HEAD")
    to = pushes(tmp_path, server, project)
    to.push("main", first, expected=None)
    to.push(BRANCH, first, expected=None)
    # The same again is no error: after a kill it is repeated.
    to.push(BRANCH, first, expected=first)
    second = commit(project, {"a.txt": "two\n"})
    to.push(BRANCH, second, expected=first)
    assert head(server, BRANCH) == second
    # Rewritten work replaces what we know to be there.
    git(project, "commit", "--quiet", "--amend", "-m", "other words")
    third = git(project, "rev-parse", "HEAD")
    to.push(BRANCH, third, expected=second)
    assert head(server, BRANCH) == third
    assert to.fetch("main") == first
    with pytest.raises(Refused, match="has no branch nowhere"):
        to.fetch("nowhere")


def test_a_branch_that_somebody_else_moved_is_never_overwritten(
    tmp_path: Path, server: GitServer, project: Path
) -> None:
    first = git(project, "rev-parse", "HEAD")
    to = pushes(tmp_path, server, project)
    to.push(BRANCH, first, expected=None)
    theirs = commit(project, {"a.txt": "theirs\n"})
    to.push(BRANCH, theirs, expected=first)
    ours = commit(project, {"a.txt": "ours\n"})
    for expected in (first, None):
        with pytest.raises(BranchMoved, match="somebody else"):
            to.push(BRANCH, ours, expected=expected)
    assert head(server, BRANCH) == theirs


def test_nothing_that_a_repository_names_runs_or_redirects_a_push(
    tmp_path: Path, server: GitServer
) -> None:
    scene = Scene.make(tmp_path / "scene")
    config = scene.project / ".git" / "config"
    with config.open("a", encoding="utf-8") as file:
        file.write(
            f'[url "http://127.0.0.1:9/"]\n\tinsteadOf = {server.url}/\n'
            f'[url "http://127.0.0.1:9/"]\n\tpushInsteadOf = {server.url}/\n'
            "[http]\n\tproxy = http://127.0.0.1:9\n\textraHeader = X-Evil: 1\n"
            "\tcookieFile = /etc/passwd\n\tsslVerify = false\n"
        )
    to = pushes(tmp_path, server, scene.project)
    work = git(scene.project, "rev-parse", "HEAD")
    scene.canaries.forget()
    to.push(BRANCH, work, expected=None)
    to.fetch(BRANCH)
    assert head(server, BRANCH) == work
    assert scene.canaries.sung == []


def test_the_settings_of_the_person_add_no_credentials(
    tmp_path: Path, server: GitServer, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "told"
    program = tmp_path / "ask"
    program.write_text(f'#!/bin/sh\necho "$@" >> {told}\necho nonsense\n', "utf-8")
    program.chmod(0o755)
    settings = tmp_path / "global"
    settings.write_text(
        f'[credential]\n\thelper = "!{program}"\n[core]\n\taskPass = "{program}"\n'
        f'[url "http://127.0.0.1:9/"]\n\tinsteadOf = {server.url}/\n', "utf-8"
    )  # fmt: skip
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    monkeypatch.setenv("GIT_ASKPASS", str(program))
    monkeypatch.setenv("SSH_ASKPASS", str(program))
    host = server.url.removeprefix("http://")
    (tmp_path / ".netrc").write_text(f"machine {host} login me password mine\n", "utf-8")
    monkeypatch.setenv("HOME", str(tmp_path))
    work = git(project, "rev-parse", "HEAD")
    pushes(tmp_path, server, project).push(BRANCH, work, expected=None)
    assert {said for said in server.seen if said} == {f"bullpen:{SECRET}"}
    with pytest.raises(Refused, match="does not accept the token"):
        pushes(tmp_path, server, project, "wrong-token").push(BRANCH, work, expected=work)
    assert not told.exists()


def test_a_server_that_redirects_gets_no_token_sent_elsewhere(
    tmp_path: Path, server: GitServer, project: Path
) -> None:
    work = git(project, "rev-parse", "HEAD")
    with git_server(server.root, SECRET) as other:
        server.redirect = other.url
        with pytest.raises(Refused, match="another address"):
            pushes(tmp_path, server, project).push(BRANCH, work, expected=None)
        with pytest.raises(Refused, match="another address"):
            pushes(tmp_path, server, project).fetch("main")
        assert other.seen == []


def test_a_server_that_never_answers_ends_by_the_deadline(
    tmp_path: Path, server: GitServer, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pushes_module, "PUSH_S", 1.0)
    server.is_stuck = True
    work = git(project, "rev-parse", "HEAD")
    with pytest.raises(TryLater, match="took too long"):
        pushes(tmp_path, server, project).push(BRANCH, work, expected=None)


@pytest.mark.parametrize(("status", "error"), [(502, TryLater), (403, Refused), (404, Refused)])
def test_failures_of_the_server_are_told_apart(
    tmp_path: Path, server: GitServer, project: Path, status: int, error: type[Exception]
) -> None:
    server.status = status
    with pytest.raises(error) as caught:
        work = git(project, "rev-parse", "HEAD")
        pushes(tmp_path, server, project).push(BRANCH, work, expected=None)
    assert SECRET not in str(caught.value)


def test_a_refusal_of_the_server_is_told_without_secrets(
    tmp_path: Path, server: GitServer, project: Path
) -> None:
    hook = server.root / "acme" / "shop.git" / "hooks" / "pre-receive"
    hook.write_text(f"#!/bin/sh\necho 'GH006: protected {SECRET}' >&2\nexit 1\n", "utf-8")
    hook.chmod(0o755)
    work = git(project, "rev-parse", "HEAD")
    with pytest.raises(Refused, match="GH006: protected") as caught:
        pushes(tmp_path, server, project).push(BRANCH, work, expected=None)
    assert SECRET not in str(caught.value)


def test_the_token_is_in_no_command_line_and_in_no_file(
    tmp_path: Path, server: GitServer, project: Path
) -> None:
    server.is_stuck = True
    seen: set[str] = set()
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            for each in Path("/proc").iterdir():
                if each.name.isdecimal():
                    try:
                        seen.add((each / "cmdline").read_bytes().decode("utf-8", "replace"))
                    except OSError:
                        continue
            server.gate.set()

    if not os.path.isdir("/proc/self"):
        pytest.skip("needs /proc")
    looking = threading.Thread(target=look)
    looking.start()
    try:
        work = git(project, "rev-parse", "HEAD")
        pushes(tmp_path, server, project).push(BRANCH, work, expected=None)
    finally:
        done.set()
        looking.join()
    assert any("--force-with-lease" in words for words in seen)
    assert not any(SECRET in words for words in seen)
    for path in (tmp_path / "home").rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes()


def test_tampering_with_the_bare_repository_is_undone(
    tmp_path: Path, server: GitServer, project: Path
) -> None:
    work = git(project, "rev-parse", "HEAD")
    to = pushes(tmp_path, server, project)
    to.push(BRANCH, work, expected=None)
    mark = tmp_path / "mark"
    hook = to.folder / "hooks" / "pre-push"
    hook.parent.mkdir()
    hook.write_text(f"#!/bin/sh\ntouch {mark}\n", "utf-8")
    hook.chmod(0o755)
    with (to.folder / "config").open("a", encoding="utf-8") as file:
        file.write(f'[url "{tmp_path}/"]\n\tinsteadOf = {server.url}/\n')
    to.push(BRANCH, work, expected=work)
    assert not mark.exists()


@pytest.mark.parametrize(
    "name",
    [
        "", "-d", "--exec=x", "a..b", "a b", "a\n", "a~1", "a^", "a:b", "a?", "a*", "a[b", "a\\b",
        "/a", "a/", "a//b", ".a", "a/.b", "a.lock", "a.lock/b", "a@{1}", "caf\u00e9", "a.",
        "x" * 300,
    ],
)  # fmt: skip
def test_a_name_that_is_no_branch_is_refused(name: str) -> None:
    with pytest.raises(Invalid):
        check_branch(name)


@pytest.mark.parametrize(
    "url",
    [
        "ssh://git@host/a/b", "git@host:a/b", "ext::sh -c x", "https://host", "https://host/a",
        "https://me:secret@host/a/b", "https://tok@host/a/b", "https://host/a/../b",
        "https://host/a/b?x", "https://host/a/b#x", "https://host:x/a/b", "https://ho st/a/b", "",
    ],
)  # fmt: skip
def test_an_address_that_is_not_plain_is_refused(url: str) -> None:
    with pytest.raises(Invalid) as caught:
        place_of(url)
    assert "secret" not in str(caught.value)


def test_an_address_is_read_as_people_write_it() -> None:
    for url in ("https://GitHub.com/acme/shop", "https://github.com/acme/shop.git/"):
        place = place_of(url)
        assert (place.host, place.path) == ("github.com", "acme/shop")
        assert place.clone_url == "https://github.com/acme/shop.git"
