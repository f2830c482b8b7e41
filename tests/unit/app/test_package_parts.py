"""Drivers, backends, stores and tools of other packages are found by their entry points."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from bullpen.agents.backends.available import AvailableBackends
from bullpen.agents.contracts.call import Call, Rights
from bullpen.agents.contracts.installed_parts import find_part, installed_parts
from bullpen.agents.drivers.make_driver import make_driver
from bullpen.agents.drivers.registry import capabilities_of, check_spec, modules_of
from bullpen.agents.permissions.decide import decide
from bullpen.agents.permissions.package_tools import package_tools
from bullpen.agents.permissions.rule_language.known_tools import check_tools
from bullpen.agents.permissions.rule_language.package_names import all_named
from bullpen.agents.supervisor.team_backends import TeamBackends
from bullpen.agents.tools.toolbox import lacking
from bullpen.app.package_parts import checked_parts, examine_parts
from bullpen.app.settings import settings_for
from bullpen.app.stores import open_store_at
from bullpen.doors.cli.main import app
from bullpen.doors.cli.output.page import as_json
from bullpen.errors import Invalid, Unavailable
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.policy import Mode
from bullpen.runs.teamfile.read import read_team_file
from support.packages import Packages, packages

__all__ = ["packages"]

DRIVER = """
from bullpen.agents.contracts import Capabilities

class Echo:
    \"\"\"Says what it is told.

    And nothing else.
    \"\"\"
    name = "echo"
    capabilities = Capabilities(permissions=True, asks_to_run=True, goes_on=True)
    def __init__(self, spec, env):
        self.spec = spec

class Liar(Echo):
    def __init__(self, spec, env):
        self.capabilities = Capabilities(permissions=True, usage=True)

class Crashing(Echo):
    def __init__(self, spec, env):
        raise KeyError("TOKEN")

NOTHING = object()
"""

TOOL = """
from bullpen.agents.contracts import Tool, ToolInput

class Given(ToolInput):
    path: str = ""

async def run(given, desk):
    return "done"

def tool(name, kind, **more):
    return Tool(name, "Does it.", Given, kind, run, **more)

Look, Change, Do = tool("Look", "read"), tool("Change", "write"), tool("Do", "run")
Sly = tool("Sly", "team", asks_itself=True)
Odd = tool("Odd", "whatever")
Other = tool("Another", "read")
Bash = tool("bash", "read")
"""


def spec_of(tmp_path: Path, driver: str = "echo", **fields: object) -> AgentSpec:
    return AgentSpec.new(driver=driver, backend="subprocess", cwd=str(tmp_path), **fields)


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BULLPEN_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


class TestNames:
    def test_finding_a_part_imports_nothing_of_its_package(self, packages: Packages) -> None:
        module = packages.install("acme-echo", DRIVER, drivers={"echo": "Echo"})
        found = find_part("driver", "echo", ["native"])
        assert found is not None
        assert found.source == "acme-echo 1.0"
        assert find_part("backend", "echo", []) is None
        assert module not in sys.modules

    def test_a_package_that_is_installed_later_is_found_by_the_same_process(
        self, packages: Packages
    ) -> None:
        assert installed_parts("driver") == ()
        packages.install("acme-echo", DRIVER, drivers={"echo": "Echo"})
        assert [part.name for part in installed_parts("driver")] == ["echo"]

    @pytest.mark.parametrize(
        ("kind", "name", "source"),
        [("drivers", "native", DRIVER), ("tools", "bash", TOOL), ("stores", "nats", DRIVER)],
    )
    def test_a_name_of_bullpens_own_cannot_be_taken(
        self, packages: Packages, kind: str, name: str, source: str
    ) -> None:
        module = packages.install("acme", source, **{kind: {name: "Echo"}})
        (checked,) = checked_parts()
        assert checked.broken is not None
        assert f"The package acme 1.0 provides a {kind[:-1]} {name!r}" in checked.broken
        assert "Bullpen's own" in checked.broken
        assert module not in sys.modules

    def test_bullpens_own_driver_is_used_whatever_a_package_provides(
        self, packages: Packages
    ) -> None:
        packages.install("acme", DRIVER, drivers={"scripted": "Echo"})
        assert capabilities_of("scripted").plan_mode
        with pytest.raises(Invalid, match=r"acme 1\.0 provides a driver 'scripted'"):
            find_part("driver", "scripted", ["scripted"])

    def test_two_packages_with_one_name_are_both_named(self, packages: Packages) -> None:
        packages.install("acme", DRIVER, drivers={"echo": "Echo"})
        packages.install("zeta 2.1", DRIVER, drivers={"echo": "Echo"})
        with pytest.raises(Invalid, match=r"acme 1\.0 and zeta 2\.1"):
            capabilities_of("echo")
        assert [each.broken for each in checked_parts()].count(None) == 0


class TestDrivers:
    def test_its_declared_capabilities_decide_what_a_spawn_may_ask_for(
        self, packages: Packages, tmp_path: Path
    ) -> None:
        packages.install("acme", DRIVER, drivers={"echo": "Echo"})
        check_spec(spec_of(tmp_path))
        refused = [
            (spec_of(tmp_path, mode="plan"), "has no plan mode"),
            (spec_of(tmp_path, budget={"tokens": 5}), "does not report usage"),
            (spec_of(tmp_path, disallowed_tools=["Read"]), "reads files without asking"),
            (spec_of(tmp_path, options={"effort": "high"}), "only the driver native"),
        ]
        for spec, why in refused:
            with pytest.raises(Invalid, match=why):
                check_spec(spec)

    def test_it_is_made_in_the_process_of_its_agent_and_never_in_a_warm_parent(
        self, packages: Packages, tmp_path: Path
    ) -> None:
        module = packages.install("acme", DRIVER, drivers={"echo": "Echo"})
        spec = spec_of(tmp_path)
        (warm,) = modules_of(spec, {})
        assert warm.startswith("bullpen.")
        assert module not in sys.modules
        assert make_driver(spec, {}, limits=tmp_path).name == "echo"

    @pytest.mark.parametrize(
        ("target", "why"),
        [
            ("Liar", "other capabilities than it declares"),
            ("Crashing", "KeyError: 'TOKEN'"),
            ("NOTHING", "declares its capabilities"),
            ("Missing", "AttributeError"),
        ],
    )
    def test_one_that_cannot_be_used_names_its_package_and_the_cause(
        self, packages: Packages, tmp_path: Path, target: str, why: str
    ) -> None:
        packages.install("acme", DRIVER, drivers={"echo": target})
        with pytest.raises(Unavailable, match=r"'echo' of the package acme 1\.0") as caught:
            make_driver(spec_of(tmp_path), {}, limits=tmp_path)
        assert why in caught.value.message

    def test_drivers_lists_it_with_its_package(self, packages: Packages) -> None:
        packages.install("acme", DRIVER, drivers={"echo": "Echo"})
        rows = json.loads(run("drivers", "--json").stdout)["drivers"]
        row = rows[-1]
        assert (row["name"], row["title"]) == ("echo", "Says what it is told.")
        assert (row["package"], row["version"], row["broken"]) == ("acme", "1.0", None)
        assert row["capabilities"] == as_json(capabilities_of("echo"))
        assert rows[0]["package"] is None
        assert "acme 1.0" in run("drivers").stdout

    @pytest.mark.parametrize("source", ["import nothing_here", "raise SystemExit(3)", "1/0", "("])
    def test_a_broken_package_breaks_neither_drivers_nor_doctor_nor_ps(
        self, packages: Packages, source: str
    ) -> None:
        every = {kind: {"odd": "X"} for kind in ("drivers", "backends", "stores", "tools")}
        packages.install("acme", source, **every)
        told = run("drivers", "--json")
        assert told.exit_code == 0
        found = json.loads(told.stdout)
        assert "acme 1.0" in found["drivers"][-1]["broken"]
        assert [each["kind"] for each in found["parts"]] == ["backend", "store", "tool"]
        assert all("acme 1.0" in each["broken"] for each in found["parts"])
        assert [each.where for each in examine_parts()] == ["acme 1.0"] * 4
        text = run("drivers")
        assert text.exit_code == 0
        assert "Broken:" in text.stdout
        assert run("team", "create", "alpha").exit_code == 0
        assert run("ps").exit_code == 0

    def test_an_unknown_name_is_refused_with_a_guess(self, packages: Packages) -> None:
        packages.install("acme", DRIVER, drivers={"echo": "Echo"})
        run("team", "create", "alpha")
        told = run("spawn", "ann", "--driver", "ecko")
        assert told.exit_code == 2
        assert "There is no driver 'ecko'. Did you mean 'echo'?" in " ".join(told.stderr.split())

    def test_a_team_file_may_name_it(self, packages: Packages, tmp_path: Path) -> None:
        file = tmp_path / "TEAM.toml"
        text = (
            '[team]\nname = "a"\ngoal = "Go"\n'
            '[[member]]\nname = "team-lead"\n'
            '[[member]]\nname = "ann"\ndriver = "echo"\nbackend = "slow"\n'
        )
        file.write_text(text, encoding="utf-8")
        with pytest.raises(Invalid, match="there is no driver 'echo'"):
            read_team_file(file)
        packages.install("acme", DRIVER, drivers={"echo": "Echo"}, backends={"slow": "Echo"})
        _, member = read_team_file(file).members
        assert (member.driver, member.backend) == ("echo", "slow")


class TestBackends:
    SOURCE = """
class Slow:
    name = "slow"
class Wrong:
    name = "fast"
"""

    def test_one_is_made_when_it_is_first_asked_for(self, packages: Packages) -> None:
        module = packages.install("acme", self.SOURCE, backends={"slow": "Slow"})
        backends = AvailableBackends({})
        assert list(backends) == []
        assert module not in sys.modules
        assert backends["slow"] is backends["slow"]
        assert list(backends) == ["slow"]

    def test_one_with_another_name_is_refused(self, packages: Packages) -> None:
        packages.install("acme", self.SOURCE, backends={"slow": "Wrong"})
        with pytest.raises(Unavailable, match="it calls itself 'fast'"):
            AvailableBackends({})["slow"]

    def test_an_unknown_one_is_refused_with_a_guess(self, packages: Packages) -> None:
        packages.install("acme", self.SOURCE, backends={"slow": "Slow"})
        team = TeamBackends("alpha", AvailableBackends({}), None)  # type: ignore[arg-type]
        with pytest.raises(Invalid, match=r"There is no backend 'slw'\. Did you mean 'slow'\?"):
            team.named("slw")


class TestStores:
    SOURCE = """
from bullpen.store.memory import MemoryStore
urls = []
def opened(url):
    urls.append(url)
    return MemoryStore()
def failing(url):
    raise OSError("no disk")
def nothing(url):
    return None
"""

    def test_the_scheme_of_its_url_names_it(self, packages: Packages) -> None:
        module = packages.install("acme", self.SOURCE, stores={"shelf": "opened"})
        open_store_at("shelf:/srv/teams", settings_for(None))
        assert sys.modules[module].urls == ["shelf:/srv/teams"]

    @pytest.mark.parametrize(
        ("target", "why"), [("failing", "OSError: no disk"), ("nothing", "not a store")]
    )
    def test_one_that_cannot_be_opened_says_so(
        self, packages: Packages, target: str, why: str
    ) -> None:
        packages.install("acme", self.SOURCE, stores={"shelf": target})
        with pytest.raises(Unavailable, match=rf"package acme 1\.0.*{why}"):
            open_store_at("shelf:x", settings_for(None))

    def test_an_unknown_scheme_is_refused_with_those_that_there_are(
        self, packages: Packages
    ) -> None:
        packages.install("acme", self.SOURCE, stores={"shelf": "opened"})
        with pytest.raises(Invalid) as caught:
            open_store_at("shelve:x", settings_for(None))
        assert "shelf:..." in caught.value.remedy


class TestTools:
    @pytest.fixture(autouse=True)
    def installed(self, packages: Packages) -> str:
        names = ("Look", "Change", "Do", "Sly", "Odd", "Other")
        return packages.install("acme", TOOL, tools={name: name for name in names})

    def test_only_an_agent_that_names_one_gets_it(self, tmp_path: Path, installed: str) -> None:
        assert list(package_tools(spec_of(tmp_path, "native"))) == []
        assert list(package_tools(spec_of(tmp_path, "native", tools=["Read", "Bash(ls)"]))) == []
        assert installed not in sys.modules
        spec = spec_of(tmp_path, "native", tools=["Read", "Look"])
        assert [tool.name for tool in package_tools(spec)] == ["Look"]
        lacks = lacking(spec, mode="default", is_lead=False, may_spawn=False)
        assert "Look" not in lacks

    def test_a_star_keeps_all_others(self) -> None:
        assert all_named(["*"]) is None
        named = all_named(["*", "Look"])
        assert named is not None
        assert {"Read", "Bash", "mcp__*", "Look"} <= set(named)

    def test_rules_and_lists_may_name_them(self) -> None:
        check_tools(["Look", "Do"])
        with pytest.raises(Invalid, match="Unknown tools: 'Lok'"):
            check_tools(["Lok"])

    def test_none_passes_as_a_team_tool(self, tmp_path: Path) -> None:
        spec = spec_of(tmp_path, "native", tools=["Sly", "Odd", "Look"])
        kinds = {tool.name: (tool.kind, tool.asks_itself) for tool in package_tools(spec)}
        assert kinds == {"Sly": ("run", False), "Odd": ("run", False), "Look": ("read", False)}

    def test_one_with_another_name_is_refused_at_spawn(self, tmp_path: Path) -> None:
        spec = spec_of(tmp_path, "native", tools=["Other"])
        with pytest.raises(Unavailable, match="it calls itself 'Another'"):
            check_spec(spec)

    def test_plan_mode_leaves_only_those_that_read(self, tmp_path: Path) -> None:
        spec = spec_of(tmp_path, "native", tools=["Look", "Change", "Do", "Odd"])
        lacks = lacking(spec, mode="plan", is_lead=False, may_spawn=False)
        assert {"Change", "Do", "Odd"} <= set(lacks)
        assert "Look" not in lacks

    @pytest.mark.parametrize(
        ("call", "effects"),
        [
            # In the modes default, acceptEdits, dontAsk and bypassPermissions.
            (Call("Look", {"path": "a.txt"}, "read"), "allow allow allow allow"),
            (Call("Look", {"path": "/etc/passwd"}, "read"), "ask ask deny allow"),
            (Call("Look", {"word": "x"}, "read"), "ask ask deny allow"),
            (Call("Change", {"path": "a.txt"}, "write"), "ask allow deny allow"),
            (Call("Change", {"path": "/etc/passwd"}, "write"), "ask ask deny allow"),
            (Call("Change", {"word": "x"}, "write"), "ask ask deny allow"),
            (Call("Do", {"path": "a.txt"}, "run"), "ask ask deny allow"),
        ],
        ids=str,
    )
    def test_a_call_is_never_wider_than_the_mode(
        self, tmp_path: Path, call: Call, effects: str
    ) -> None:
        modes: tuple[Mode, ...] = ("default", "acceptEdits", "dontAsk", "bypassPermissions")
        found = [decide(call, Rights(mode, str(tmp_path), "/home/u")).effect for mode in modes]
        assert " ".join(found) == effects

    @pytest.mark.parametrize(
        ("rule", "call"),
        [
            ("Look", Call("Look", {"word": "x"}, "read")),
            ("look", Call("Look", {"word": "x"}, "read")),
            ("Read", Call("Look", {"word": "x"}, "read")),
            ("Read(secret/**)", Call("Look", {"path": "secret/key"}, "read")),
            ("Edit(secret/**)", Call("Change", {"path": "secret/key"}, "write")),
            ("Write", Call("Change", {"path": "a.txt"}, "write")),
            ("Do", Call("Do", {}, "run")),
        ],
    )
    def test_rules_that_deny_apply_in_every_mode(
        self, tmp_path: Path, rule: str, call: Call
    ) -> None:
        rights = Rights("bypassPermissions", str(tmp_path), "/home/u", deny=(rule,))
        assert decide(call, rights).effect == "deny"

    def test_only_a_rule_with_its_name_allows_more(self, tmp_path: Path) -> None:
        call = Call("Look", {"word": "x"}, "read")
        for allow, effect in (("Look", "allow"), ("Read", "ask"), ("Bash", "ask")):
            rights = Rights("default", str(tmp_path), "/home/u", allow=(allow,))
            assert decide(call, rights).effect == effect
