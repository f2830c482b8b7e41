"""What is stored of an agent that a program of another vendor drives, and what is refused."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pytest

from bullpen.agents.config.spec import SpawnRequest
from bullpen.agents.contracts.desk import Wanted
from bullpen.agents.drivers.native.model_choice import ANTHROPIC_DEFAULT
from bullpen.agents.drivers.registry import check_spec
from bullpen.agents.supervisor.colleagues import teammate
from bullpen.agents.system import environment
from bullpen.agents.system.secrets import redactor_of
from bullpen.agents.system.vendors.programs import PROGRAMS
from bullpen.doors.cli.options import spawn as spawn_options
from bullpen.errors import Invalid, Refused, Unavailable
from bullpen.protocol import agent
from bullpen.protocol.agent import AgentFacts, AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.protocol.policy import Policy
from support.offices import TEAM, Place, opened
from support.rows import each_row

KEYS = {
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CODEX_API_KEY",
    "COPILOT_GITHUB_TOKEN",
    "COPILOT_PROVIDER_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "MISTRAL_API_KEY",
    "OPENAI_API_KEY",
}
ONLY_ITS_OWN = {
    "codex": {"OPENAI_API_KEY", "CODEX_API_KEY"},
    "claude": {"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"},
    "claude-code": {"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"},
    "goose": {"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"},
    "gemini": {"GEMINI_API_KEY", "GOOGLE_API_KEY"},
    "copilot": {"COPILOT_GITHUB_TOKEN", "COPILOT_PROVIDER_API_KEY"},
    "vibe": {"MISTRAL_API_KEY"},
    "acp": set(),
}


async def spec_of(place: Place, driver: str, **fields: Any) -> AgentSpec:
    """The spec of an agent that this driver takes the turns of."""
    return await place.app.resolve(
        SpawnRequest(driver=driver, backend="subprocess", cwd=str(place.project), **fields)
    )


def test_the_command_line_knows_every_kind_of_tree() -> None:
    assert get_args(spawn_options.WorkspaceKind) == get_args(agent.WorkspaceKind)
    assert get_args(spawn_options.DirtyStart) == get_args(agent.DirtyStart)


class TestEnvironment:
    @pytest.mark.parametrize("driver", ONLY_ITS_OWN)
    async def test_a_program_gets_the_keys_of_its_own_model_and_no_others(
        self, place: Place, driver: str
    ) -> None:
        """R-9.6: an explicit recorded allow-list."""
        spec = await spec_of(place, driver)
        assert KEYS & set(spec.env) == ONLY_ITS_OWN[driver]
        assert set(environment.COMMON) <= set(spec.env)

    async def test_a_variable_can_be_given_to_any_program_by_name(self, tmp_path: Path) -> None:
        async with opened(tmp_path, MY_KEY="my-own-key-7") as place:
            spec = await spec_of(place, "acp", command=["agent"], env=["MY_KEY"])
            assert "MY_KEY" in spec.env
            assert spec.env_asked == ["MY_KEY"]

    def test_keys_of_programs_are_kept_from_our_commands(self) -> None:
        assert set(environment.MODEL_KEYS) >= KEYS
        env = {**dict.fromkeys(KEYS, "a-secret-value"), "CODEX_HOME": "/codex"}
        spec = AgentSpec.new(driver="native", backend="in-process", cwd="/")
        asked = spec.evolve(env_asked=["CODEX_API_KEY"])
        assert KEYS.isdisjoint(environment.for_commands(env, spec))
        assert environment.for_commands(env, asked)["CODEX_API_KEY"]

    @each_row("name", sorted(KEYS))
    def test_keys_of_programs_are_taken_out_of_what_is_kept(self, name: str) -> None:
        redactor = redactor_of({name: "zx81-not-a-word"})
        assert redactor.text("The key is zx81-not-a-word.") == f"The key is [secret {name}]."

    def test_addresses_and_names_of_models_are_no_secrets(self) -> None:
        plain = {"OPENAI_HOST": "http://127.0.0.1:4010", "GOOSE_MODEL": "gpt-6.1-sol"}
        assert set(plain) <= set(environment.OF_PROGRAMS)
        text = " ".join(plain.values())
        assert redactor_of(plain).text(text) == text


class TestCommand:
    async def test_the_words_of_a_command_are_stored(self, place: Place, programs: Path) -> None:
        agent = str(programs / "goose")
        spec = await spec_of(place, "acp", command=[agent, "--acp"])
        assert spec.options["command"] == [agent, "--acp"]
        check_spec(spec)

    async def test_a_program_nobody_named_is_refused(self, place: Place) -> None:
        with pytest.raises(Invalid, match="'acp' needs a command") as refused:
            check_spec(await spec_of(place, "acp"))
        assert "--command" in refused.value.remedy

    @pytest.mark.parametrize("driver", ["native", "scripted"])
    async def test_our_own_drivers_take_no_command(self, place: Place, driver: str) -> None:
        bare = AgentSpec.new(driver=driver, backend="subprocess", cwd="/", script="x")
        with pytest.raises(Invalid, match=f"{driver!r} does not start a program"):
            check_spec(bare.evolve(options={"command": ["goose"]}))

    async def test_an_agent_cannot_say_what_is_started(self, place: Place) -> None:
        """What SpawnTeammate takes has no command in it; only the same can be started again."""
        parent = AgentFacts.new(
            spec=(await spec_of(place, "acp", command=["agent", "--acp"], prompt="x")).raw,
            nonce="n",
            since_ms=1,
        )
        again = await teammate(Wanted("bob", "Go"), place.app.files, ("alice", parent), team=TEAM)
        assert again.options["command"] == ["agent", "--acp"]
        other = await teammate(
            Wanted("bob", "Go", driver="codex"), place.app.files, ("alice", parent), team=TEAM
        )
        assert "command" not in other.options
        assert not hasattr(Wanted("bob", "Go"), "command")


class TestMissing:
    @pytest.mark.parametrize("driver", sorted(set(PROGRAMS) - {"acp"}))
    async def test_a_program_that_is_not_there_is_refused_with_how_to_get_it(
        self, place: Place, programs: Path, driver: str
    ) -> None:
        """R-9.3: what cannot be had is an error by name, and never something else."""
        spec = await spec_of(place, driver)
        check_spec(spec, environ={"PATH": str(programs)})
        with pytest.raises(Unavailable, match=f"{driver!r} needs the program") as missing:
            check_spec(spec, environ={"PATH": str(programs.parent)})
        assert PROGRAMS[driver].install in missing.value.remedy

    async def test_nothing_is_registered_for_a_program_that_is_not_there(
        self, place: Place, programs: Path
    ) -> None:
        (programs / "codex-acp").unlink()
        spec = await spec_of(place, "codex")
        with pytest.raises(Unavailable, match="codex-acp"):
            await place.supervisor.spawn("alice", spec, by=LEAD)
        assert [member.name for member in await place.team.roster.list()] == [LEAD]

    async def test_a_command_by_its_path_is_looked_for_where_the_agent_works(
        self, place: Place
    ) -> None:
        spec = await spec_of(place, "acp", command=["./agent"])
        with pytest.raises(Unavailable, match=r"\./agent"):
            check_spec(spec)
        agent = place.project / "agent"
        agent.write_text("#!/bin/sh\n")
        agent.chmod(0o755)
        check_spec(spec)

    async def test_a_library_that_is_not_there_is_refused_with_how_to_get_it(
        self, place: Place, programs: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        spec = await spec_of(place, "codex")
        # As if it were not installed.
        monkeypatch.setitem(sys.modules, "acp", None)
        with pytest.raises(Unavailable, match="needs acp, which is not installed") as missing:
            check_spec(spec, environ={"PATH": str(programs)})
        assert "bullpen[acp]" in missing.value.remedy


class TestModels:
    async def test_a_model_is_stored_as_it_was_asked_for(self, place: Place) -> None:
        """R-5.5: only the program itself can say what the name stands for."""
        assert (await spec_of(place, "claude", model="opus")).model == "opus"
        assert (await spec_of(place, "codex")).model is None

    async def test_a_model_is_inherited_only_by_the_same_program(self, place: Place) -> None:
        parent = AgentFacts.new(
            spec=(await spec_of(place, "codex", model="gpt-5.5")).raw, nonce="n", since_ms=1
        )
        made = partial(teammate, files=place.app.files, parent=("alice", parent), team=TEAM)
        assert (await made(Wanted("b", "Go"))).model == "gpt-5.5"
        assert (await made(Wanted("b", "Go", driver="goose"))).model is None
        native = await made(Wanted("b", "Go", driver="native"))
        assert native.model == f"anthropic:{ANTHROPIC_DEFAULT}"


BUDGETS: list[tuple[str, dict[str, Any], bool, str | None]] = [
    ("codex", {"budget_tokens": 1000}, False, None),
    ("codex", {"turns_max": 3, "budget_wall_s": 60}, False, None),
    ("codex", {"budget_usd": 1.0}, True, "does not report what its requests cost"),
    ("claude", {"budget_usd": 1.0}, True, None),
    ("acp", {"budget_tokens": 1000}, False, "does not report usage"),
    ("acp", {"turns_max": 3}, False, None),
]


@pytest.mark.parametrize(("driver", "asked", "in_money", "refusal"), BUDGETS)
async def test_a_budget_that_could_not_be_kept_is_refused(
    place: Place,
    programs: Path,
    driver: str,
    asked: dict[str, Any],
    in_money: bool,
    refusal: str | None,
) -> None:
    command = ["goose"] if driver == "acp" else None
    spec = await spec_of(place, driver, command=command, **asked)

    def check() -> None:
        check_spec(spec, in_money, environ={"PATH": str(programs)})

    if refusal is None:
        check()
    else:
        with pytest.raises(Invalid, match=refusal):
            check()


READ_ALL = Policy.new(allow=["Read"])


class TestNeverWider:
    """R-4.2: a program that reads unasked is wider than an agent that has to ask."""

    @pytest.mark.parametrize(
        ("mode", "policy", "allowed"),
        [
            ("default", None, False),
            ("acceptEdits", None, False),
            ("acceptEdits", Policy.new(allow=["Read(//usr/**)", "Bash"]), False),
            ("default", READ_ALL, True),
            ("bypassPermissions", None, True),
        ],
    )
    async def test_an_agent_spawns_one_only_if_it_may_read_everything_itself(
        self, place: Place, mode: str, policy: Policy | None, allowed: bool
    ) -> None:
        parent = AgentFacts.new(
            spec=(await place.spec("", mode=mode, policy=policy)).raw, nonce="n", since_ms=1
        )

        async def spawn() -> AgentSpec:
            return await teammate(
                Wanted("bob", "Go", driver="codex"), place.app.files, (LEAD, parent), team=TEAM
            )

        if allowed:
            assert (await spawn()).mode == mode
        else:
            with pytest.raises(Refused, match=r"reads files anywhere unasked \(codex\)") as refused:
                await spawn()
            assert refused.value.reason == "wider_than_parent"

    async def test_a_program_spawns_another_of_its_kind(self, place: Place) -> None:
        parent = AgentFacts.new(
            spec=(await spec_of(place, "codex", mode="default")).raw, nonce="n", since_ms=1
        )
        made = await teammate(
            Wanted("bob", "Go", driver="goose"), place.app.files, ("alice", parent), team=TEAM
        )
        assert (made.driver, made.mode) == ("goose", "default")

    async def test_what_a_parent_may_not_read_no_program_can_be_spawned_under(
        self, place: Place, programs: Path
    ) -> None:
        policy = Policy.new(allow=["Read"], deny=["Read(.env)"])
        parent = AgentFacts.new(
            spec=(await place.spec("", mode="default", policy=policy)).raw, nonce="n", since_ms=1
        )
        spec = await teammate(
            Wanted("bob", "Go", driver="codex"), place.app.files, (LEAD, parent), team=TEAM
        )
        with pytest.raises(Invalid, match=r"reads files without asking, .*Read\(\.env\)"):
            check_spec(spec, environ={"PATH": str(programs)})
