"""The table of providers: their variables reach the agents that need them, and nobody else."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bullpen.agents.config.spec import SpawnFiles, SpawnRequest, resolve
from bullpen.agents.contracts.desk import Wanted
from bullpen.agents.drivers.native.model_choice import choose
from bullpen.agents.supervisor.colleagues import teammate
from bullpen.agents.system import environment
from bullpen.agents.system.secrets import redactor_of
from bullpen.agents.system.vendors import model_providers
from bullpen.agents.system.vendors.model_providers import PROVIDERS, ModelProvider
from bullpen.errors import Invalid, Unavailable
from bullpen.protocol.agent import AgentFacts, AgentSpec
from bullpen.protocol.names import LEAD

ROOT = Path(__file__).parents[4]
every_provider = pytest.mark.parametrize("prefix", list(PROVIDERS))
ALL = {
    name: f"value-{number}-of-{name}"
    for number, name in enumerate(
        dict.fromkeys(name for each in PROVIDERS.values() for name in each.variables)
    )
}


async def spec_of(tmp_path: Path, environ: Mapping[str, str], **fields: Any) -> AgentSpec:
    files = SpawnFiles(tmp_path, {"HOME": str(tmp_path), **environ})
    return await resolve(SpawnRequest(cwd=str(tmp_path), **fields), files)


@every_provider
async def test_an_agent_gets_the_variables_of_its_provider(prefix: str, tmp_path: Path) -> None:
    provider = PROVIDERS[prefix]
    spec = await spec_of(tmp_path, ALL, model=f"{prefix}:some-model")
    assert spec.model == f"{prefix}:some-model"
    assert set(provider.variables) <= set(spec.env)
    others = {name for each in PROVIDERS.values() for name in each.credentials}
    allowed = {*provider.credentials, *environment.MODELS}
    assert others & set(spec.env) <= allowed


async def test_an_agent_also_gets_the_variables_of_its_small_model(tmp_path: Path) -> None:
    spec = await spec_of(tmp_path, ALL, model="vllm:m", small_model="groq:n")
    assert {*PROVIDERS["vllm"].variables, *PROVIDERS["groq"].variables} <= set(spec.env)
    assert spec.options["small_model"] == "groq:n"


async def test_the_environment_names_a_small_model(tmp_path: Path) -> None:
    environ = {**ALL, "BULLPEN_SMALL_MODEL": "gpt-5-nano"}
    spec = await spec_of(tmp_path, environ, model="vllm:m")
    assert spec.options["small_model"] == "openai:gpt-5-nano"
    other = await spec_of(tmp_path, environ, model="vllm:m", small_model="vllm:s")
    assert other.options["small_model"] == "vllm:s"


async def test_what_is_set_for_a_model_is_found_by_each_of_its_names(tmp_path: Path) -> None:
    for name in ("claude-x", "anthropic:claude-x"):
        models = {name: {"context_window": 9000}, "small": {"max_output": 5}}
        spec = await spec_of(
            tmp_path, ALL, model="claude-x", models=models, small_model="vllm:small",
            model_options={"max_output": 7}, effort="low", strict_model=True,
        )  # fmt: skip
        assert spec.options == {
            "context_window": 9000,
            "max_output": 7,
            "effort": "low",
            "strict_model": True,
            "small_model": "vllm:small",
            "small_model_options": {"max_output": 5},
        }


async def test_a_teammate_inherits_what_is_about_its_own_model_too(tmp_path: Path) -> None:
    above = await spec_of(
        tmp_path, ALL, model="vllm:m", small_model="groq:n", strict_model=True,
        model_options={"context_window": 9000},
    )  # fmt: skip
    facts = AgentFacts.new(
        spec=above.raw, parent=LEAD, nonce="n", phase="running", since_ms=0, began_ms=0
    )
    parent = (LEAD, facts)
    files = SpawnFiles(tmp_path, {"HOME": str(tmp_path), **ALL})
    same = await teammate(Wanted("bob", "Go"), files, parent, team="crew")
    assert same.options == above.options
    assert set(PROVIDERS["groq"].variables) <= set(same.env)
    wanted = Wanted("bob", "Go", model="ollama:other")
    other = await teammate(wanted, files, parent, team="crew")
    assert other.options == {"small_model": "groq:n", "strict_model": True}


@every_provider
def test_commands_of_an_agent_get_no_key_and_nothing_shows_one(prefix: str) -> None:
    secrets = [name for name in PROVIDERS[prefix].credentials if name != "AWS_PROFILE"]
    env = {name: f"zx81-not-a-word-{name}" for name in secrets}
    spec = AgentSpec.new(driver="native", backend="in-process", cwd="/")
    assert not set(secrets) & set(environment.for_commands(env, spec))
    redactor = redactor_of(env)
    for name, value in env.items():
        assert value not in redactor.text(f"it is {value}"), name


@pytest.mark.parametrize(
    "token", ["ABSK" + "Qm9iNzgx" * 8, "bedrock-api-key-" + "YmVkcm9jazE3" * 5]
)
def test_a_key_of_bedrock_is_known_by_its_shape(token: str) -> None:
    assert token not in redactor_of({}).text(f"key {token} end")


@every_provider
def test_a_missing_library_names_the_extra(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = PROVIDERS[prefix]
    provider.check_installed()
    monkeypatch.setattr(model_providers, "find_spec", lambda name: None)
    with pytest.raises(Unavailable) as caught:
        provider.check_installed()
    assert caught.value.remedy == f"Run: pip install 'bullpen[{provider.extra}]'"


@every_provider
def test_the_page_about_models_has_every_provider_and_its_extra_exists(prefix: str) -> None:
    provider = PROVIDERS[prefix]
    page = (ROOT / "docs/reference/models.md").read_text("utf-8")
    (row,) = [line for line in page.splitlines() if line.startswith(f"| `{prefix}:` ")]
    for word in (provider.title, *provider.keys, provider.url_variable, provider.extra):
        assert word in row
    assert provider.url is None or provider.url in row
    assert ("optional" in row) is not provider.needs_key
    assert all(f"`{name}`" in page for name in provider.variables)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert provider.extra in extras["optional-dependencies"]


@every_provider
def test_a_provider_needs_its_key_and_its_address_unless_it_is_local(prefix: str) -> None:
    provider: ModelProvider = PROVIDERS[prefix]
    assert choose(f"{prefix}:m", ALL).base_url == ALL[provider.url_variable]
    if provider.needs_key:
        with pytest.raises(Unavailable, match=provider.keys[0]):
            choose(f"{prefix}:m", {})
    else:
        found = choose(f"{prefix}:m", {})
        assert (found.key, found.base_url) == ("", provider.url)
        assert found.credential == found.base_url
    if provider.needs_url and provider.url is None:
        keys = {provider.keys[0]: "k"}
        with pytest.raises(Unavailable, match=re.escape(provider.url_variable)):
            choose(f"{prefix}:m", keys)


def test_a_prefix_that_nobody_has_is_told_all_that_exist() -> None:
    with pytest.raises(Invalid) as caught:
        choose("nobody:m", ALL)
    assert all(prefix in caught.value.remedy for prefix in PROVIDERS)


def test_two_regions_of_one_key_have_two_rate_limits() -> None:
    one = choose("bedrock:m", {"AWS_PROFILE": "p", "AWS_REGION": "a"})
    two = choose("bedrock:m", {"AWS_PROFILE": "p", "AWS_REGION": "b"})
    assert one.credential != two.credential
