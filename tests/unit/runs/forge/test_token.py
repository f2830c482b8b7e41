"""The token of a forge is read from private places only, and never shown."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bullpen.agents.contracts.backend import FORGE_TOKEN
from bullpen.agents.system.environment import check_names, environment
from bullpen.errors import Invalid, NotFound, Refused
from bullpen.runs.forge.token import (
    Token,
    body_redactor,
    find_token,
    forget_token,
    keep_token,
    marker_key,
    token_file,
    without_token,
)

HOST = "git.example:3000"
SECRET = "0123456789abcdef0123456789abcdef01234567"


def test_a_kept_token_is_found_again_in_a_file_that_only_its_user_can_read(tmp_path: Path) -> None:
    path = keep_token(tmp_path / "home", HOST, f"{SECRET}\n")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    found = find_token(tmp_path / "home", HOST, {})
    assert (found.value, found.origin) == (SECRET, str(path))
    assert SECRET not in repr(found)
    assert forget_token(tmp_path / "home", HOST)
    assert not forget_token(tmp_path / "home", HOST)
    with pytest.raises(NotFound, match="bullpen forge login"):
        find_token(tmp_path / "home", HOST, {})


def test_a_named_variable_is_the_only_place_that_is_looked_at(tmp_path: Path) -> None:
    keep_token(tmp_path, HOST, SECRET)
    given = {"CI_FORGE": "of-the-variable", FORGE_TOKEN: "of-ours"}
    assert find_token(tmp_path, HOST, given, variable="CI_FORGE").value == "of-the-variable"
    assert find_token(tmp_path, HOST, given).value == "of-ours"
    with pytest.raises(NotFound, match="CI_FORGE"):
        find_token(tmp_path, HOST, {FORGE_TOKEN: "of-ours"}, variable="CI_FORGE")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_file_that_others_can_open_is_not_used(tmp_path: Path, mode: int) -> None:
    keep_token(tmp_path, HOST, SECRET).chmod(mode)
    with pytest.raises(Refused, match="other users can read it"):
        find_token(tmp_path, HOST, {})


def test_a_link_or_a_pipe_in_place_of_the_file_is_not_used(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text(SECRET, "utf-8")
    elsewhere.chmod(0o600)
    path = token_file(tmp_path, HOST)
    path.parent.mkdir()
    path.symlink_to(elsewhere)
    with pytest.raises(Refused, match="it is a link"):
        find_token(tmp_path, HOST, {})
    # To keep a token replaces the link, and leaves what it led to.
    keep_token(tmp_path, HOST, "another")
    assert elsewhere.read_text("utf-8") == SECRET
    path.unlink()
    os.mkfifo(path, 0o600)
    with pytest.raises(Refused, match="not a regular file"):
        find_token(tmp_path, HOST, {})


@pytest.mark.parametrize("text", ["", "two words", "a\nb", "caf\u00e9", "x" * 5_000, "a\x00b"])
def test_what_is_no_token_is_refused_and_not_repeated(tmp_path: Path, text: str) -> None:
    with pytest.raises(Invalid) as caught:
        keep_token(tmp_path, HOST, text)
    assert not text.strip() or text not in str(caught.value)
    assert not token_file(tmp_path, HOST).exists()


def test_hosts_with_strange_names_do_not_leave_the_folder(tmp_path: Path) -> None:
    for host in ("../../etc/passwd", "a/b", "..", ""):
        assert token_file(tmp_path, host).parent == tmp_path / "forge"


def test_no_agent_gets_the_token_not_even_by_name() -> None:
    with pytest.raises(Invalid, match=FORGE_TOKEN):
        check_names([FORGE_TOKEN], {FORGE_TOKEN: SECRET})
    given = environment(
        ["PATH", FORGE_TOKEN],
        {"PATH": "/bin", FORGE_TOKEN: SECRET},
        home="/home", team="t", agent="a", nonce="n", store={},
    )  # fmt: skip
    assert SECRET not in given.values()


def test_bodies_lose_the_token_in_every_form_and_other_secrets(tmp_path: Path) -> None:
    (tmp_path / "person.key").write_text("bpp_the-key-of-a-person\n", "utf-8")
    clean = body_redactor(tmp_path, Token(SECRET, "test"), {"DEPLOY_KEY": "hunter2-hunter2"})
    text = f"a {SECRET} b {SECRET.encode().hex()} c hunter2-hunter2 d bpp_the-key-of-a-person"
    said = clean.text(text)
    for secret in (SECRET, SECRET.encode().hex(), "hunter2", "the-key-of-a-person"):
        assert secret not in said


def test_the_key_of_markers_is_made_once_and_stays(tmp_path: Path) -> None:
    first = marker_key(tmp_path)
    assert marker_key(tmp_path) == first
    assert len(first) == 64
    path = tmp_path / "forge" / "marker.key"
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text("short", "utf-8")
    with pytest.raises(Refused, match="damaged"):
        marker_key(tmp_path)


def test_a_reviewer_gets_no_variable_that_contains_the_token() -> None:
    token = Token("0123456789abcdef", "SHOP_FORGE")
    given = {
        "SHOP_FORGE": token.value,
        FORGE_TOKEN: token.value,
        "HEADER": f"Authorization: token {token.value}",
        "ANTHROPIC_API_KEY": "another",
    }
    assert without_token(given, token) == {"ANTHROPIC_API_KEY": "another"}
