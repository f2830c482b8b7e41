"""The key of a home's person."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from bullpen.agents.contracts.backend import PERSON_KEY
from bullpen.agents.system.environment import check_names, environment, for_commands
from bullpen.agents.system.token_shapes import without_tokens
from bullpen.app.person_key import show_key
from bullpen.errors import Invalid, Refused
from bullpen.protocol.agent import AgentSpec


def test_the_first_to_act_makes_it_for_its_user_alone(tmp_path: Path) -> None:
    show_key(tmp_path / "home", {})
    path = tmp_path / "home" / "person.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_text("utf-8")
    show_key(tmp_path / "home", {})
    assert path.read_text("utf-8") == before


def test_a_variable_must_hold_the_key_of_the_home(tmp_path: Path) -> None:
    show_key(tmp_path, {PERSON_KEY: "chosen-by-ci"})
    show_key(tmp_path, {PERSON_KEY: "chosen-by-ci"})
    with pytest.raises(Refused) as caught:
        show_key(tmp_path, {PERSON_KEY: "another"})
    assert caught.value.reason == "not_a_person"


def test_a_key_that_cannot_be_read_is_no_proof(tmp_path: Path) -> None:
    (tmp_path / "person.key").mkdir()
    with pytest.raises(Refused) as caught:
        show_key(tmp_path, {})
    assert caught.value.reason == "not_a_person"


def test_no_agent_gets_it() -> None:
    env = {PERSON_KEY: "k", "PATH": "/bin"}
    asked = AgentSpec.new(driver="native", backend="in-process", cwd="/", env_asked=[PERSON_KEY])
    assert PERSON_KEY not in for_commands(env, asked)
    made = environment(
        [PERSON_KEY, "PATH"], env, home="/h", team="t", agent="a", nonce="n", store={}
    )
    assert PERSON_KEY not in made
    with pytest.raises(Invalid):
        check_names([PERSON_KEY], env)


def test_it_is_redacted_wherever_it_is_printed(tmp_path: Path) -> None:
    show_key(tmp_path, {})
    key = (tmp_path / "person.key").read_text("utf-8").strip()
    assert key not in without_tokens(f"the key is {key}")
