"""What the process of an agent imports, by its driver and model."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from bullpen.agents.drivers.registry import DRIVERS, modules_of
from bullpen.agents.system.vendors.model_providers import PROVIDERS
from bullpen.protocol.agent import AgentSpec
from support.rows import each_row


def spec_of(driver: str, model: str | None = None) -> AgentSpec:
    return AgentSpec.new(driver=driver, backend="subprocess", cwd="/", model=model)


@each_row("driver", DRIVERS)
def test_each_driver_has_modules_that_exist(driver: str) -> None:
    for name in modules_of(spec_of(driver), {}):
        assert find_spec(name) is not None, name


@each_row("prefix", PROVIDERS)
def test_a_native_agent_has_the_library_of_its_model_and_no_other(prefix: str) -> None:
    provider = PROVIDERS[prefix]
    env = {**dict.fromkeys(provider.variables, "x"), provider.url_variable: "http://127.0.0.1"}
    names = modules_of(spec_of("native", f"{prefix}:model"), env)
    for name in names:
        module, _, function = name.partition(":")
        assert find_spec(module) is not None, name
        assert not function or callable(getattr(import_module(module), function)), name
    speaks = {name.removeprefix("pydantic_ai.models.") for name in names if ".models." in name}
    api = {"openai-chat": "openai", "azure": "openai", "vertex": "google"}
    assert speaks == {api.get(provider.api, provider.api)}


def test_without_a_key_there_is_only_the_driver() -> None:
    names = modules_of(spec_of("native", "anthropic:model"), {})
    assert not [name for name in names if name.startswith("pydantic_ai")]
    assert "bullpen.agents.drivers.native.driver" in names
