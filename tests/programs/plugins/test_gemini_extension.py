"""A real Gemini CLI with the extension. Its model is a mock."""

from __future__ import annotations

import json
from pathlib import Path

from bullpen.testing.models import Call, MockModels, Reply
from programs.plugins.stepwise import Steps, run
from programs.real_programs import Placed, placed
from support.doors.people import BULLPEN, Person


def test_gemini_lists_the_extension_and_uses_its_command_its_skill_and_its_server(
    person: Person, tmp_path: Path
) -> None:
    model = Steps(
        Reply.call("mcp_bullpen_TeamCreate", team_name="shop"),
        Reply("", (Call("activate_skill", {"name": "bullpen"}),)),
        Reply("Done."),
    )
    with MockModels(model) as mock:
        found = placed("gemini", tmp_path / "gemini", mock)
        # Without the flag with which a driver speaks to it.
        found = Placed(found.argv[:1], found.env)
        person.said("mcp", "install", "gemini", "--plugin", "--yes", **found.env)
        told = run(found, person.project, "extensions", "list", "-o", "json")
        (listed,) = json.loads(told[told.index("[") : told.rindex("]") + 1])
        assert (listed["name"], listed["isActive"]) == ("bullpen", True)
        assert listed["mcpServers"] == {"bullpen": {"command": str(BULLPEN), "args": ["mcp"]}}
        assert [skill["name"] for skill in listed["skills"]] == ["bullpen"]
        folder = listed["path"]
        assert "successfully validated" in run(
            found, person.project, "extensions", "validate", folder
        )

        words = ("-p", "/bullpen:team Build a parser", "--approval-mode", "yolo")
        run(found, person.project, *words)
        said = "\n".join(model.told)
        assert "You can lead or join Bullpen teams" in said
        assert "Goal: Build a parser" in said
        assert '\\"team_name\\": \\"shop\\"' in said
        assert "Start each teammate with `SpawnTeammate" in said

        person.said("mcp", "uninstall", "gemini", "--plugin", "--yes", **found.env)
        assert not Path(folder).exists()
