"""Files of a repository that other vendors' programs obey need the user's trust."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bullpen.agents.config.spec import SpawnRequest
from bullpen.agents.config.trust import trust
from bullpen.agents.drivers.unsupported import runs_to_read
from bullpen.agents.system.vendors.obeyed_files import APPROVED_FILES
from bullpen.agents.system.vendors.programs import refuse_unapproved
from bullpen.errors import Refused, Unavailable
from bullpen.protocol.agent import AgentSpec
from support.offices import Place
from support.rows import each_row

OBEYED = [
    ("codex", ".codex/rules/default.rules"),
    ("codex", ".codex/rules/deep/er.rules"),
    ("codex", ".codex/config.toml"),
    ("codex", ".codex/hooks.json"),
    ("claude-code", ".claude/settings.json"),
    ("claude-code", ".claude/settings.local.json"),
    ("copilot", ".github/hooks/a.json"),
    ("copilot", ".github/copilot/settings.json"),
    ("copilot", ".mcp.json"),
    ("gemini", ".gemini/settings.json"),
    ("goose", ".agents/plugins/x/hooks/hooks.json"),
    ("qwen", ".qwen/settings.json"),
    ("vibe", ".vibe/config.toml"),
]


async def spec_of(place: Place, driver: str) -> AgentSpec:
    return await place.app.resolve(
        SpawnRequest(driver=driver, backend="subprocess", cwd=str(place.project))
    )


def put(path: Path, text: str = "{}") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize(("driver", "path"), OBEYED)
async def test_a_file_that_a_program_obeys_is_refused_until_it_is_trusted(
    place: Place, driver: str, path: str
) -> None:
    file = put(place.project / path)
    with pytest.raises(Refused) as caught:
        await spec_of(place, driver)
    assert caught.value.reason == "not_trusted"
    assert str(file) in caught.value.message
    assert "bullpen trust" in caught.value.remedy
    assert "--no-project-settings" not in caught.value.remedy
    trust(place.home, place.project)
    spec = await spec_of(place, driver)
    assert spec.options[APPROVED_FILES]
    refuse_unapproved(spec, "It")


@pytest.mark.parametrize("driver", ["claude", "opencode", "native"])
async def test_a_file_that_forced_settings_switch_off_needs_no_trust(
    place: Place, driver: str
) -> None:
    for path in (".codex/rules/a.rules", "opencode.json", ".opencode/plugin/x.js", ".mcp.json"):
        put(place.project / path)
    assert APPROVED_FILES not in (await spec_of(place, driver)).options


async def test_a_program_is_not_started_beside_a_file_that_came_later(place: Place) -> None:
    spec = await spec_of(place, "codex")
    refuse_unapproved(spec, "Codex")
    file = put(place.project / ".codex/rules/mine.rules", "prefix_rule(pattern=['rm'])")
    with pytest.raises(Unavailable, match="Codex would obey") as caught:
        refuse_unapproved(spec, "Codex")
    assert str(file) in caught.value.message
    trust(place.home, place.project)
    trusted = await spec_of(place, "codex")
    refuse_unapproved(trusted, "Codex")
    file.write_text("prefix_rule(pattern=['sh'])", "utf-8")
    with pytest.raises(Unavailable):
        refuse_unapproved(trusted, "Codex")


async def test_every_byte_of_every_file_counts(place: Place) -> None:
    long = put(place.project / ".codex/rules/long.rules", "#" * 17_000_000)
    many = [put(place.project / f".codex/rules/{number:04}.rules") for number in range(1_100)]
    trust(place.home, place.project)
    spec = await spec_of(place, "codex")
    refuse_unapproved(spec, "Codex")
    for file in (long, many[-1]):
        with file.open("a", encoding="utf-8") as out:
            out.write("prefix_rule(pattern=['sh'])")
        with pytest.raises(Unavailable, match=str(file)):
            refuse_unapproved(spec, "Codex")
        trust(place.home, place.project)
        spec = await spec_of(place, "codex")


async def test_a_link_to_a_pipe_blocks_nobody(place: Place) -> None:
    os.mkfifo(place.project / "pipe")
    put(place.project / ".codex/rules/a.rules").unlink()
    (place.project / ".codex/rules/a.rules").symlink_to(place.project / "pipe")
    with pytest.raises(Refused):
        await spec_of(place, "codex")


async def test_a_link_to_a_file_elsewhere_counts(place: Place, tmp_path: Path) -> None:
    rules = put(tmp_path / "elsewhere" / "a.rules").parent
    (place.project / ".codex").mkdir()
    (place.project / ".codex" / "rules").symlink_to(rules)
    with pytest.raises(Refused):
        await spec_of(place, "codex")


@each_row(
    ("rule", "reads"),
    [
        ("Bash", True),
        ("Bash(*)", True),
        ("Bash(cat:*)", True),
        ("Bash(cat /etc/passwd)", True),
        ("Bash(git log:*)", True),
        ("Bash(git:*)", True),
        ("bash(cat:*)", True),
        ("Bash(git push:*)", False),
        ("Bash(rm -rf:*)", False),
        ("Bash(curl:*)", False),
        ("Read", False),
        ("WebFetch", False),
    ],
)
def test_rules_about_commands_that_only_read_are_told_from_others(rule: str, reads: bool) -> None:
    assert runs_to_read(rule) == reads
