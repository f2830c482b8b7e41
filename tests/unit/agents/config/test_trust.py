"""Trust: what a project's files ask for counts only if a person said so."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from pathlib import Path

import pytest

from bullpen.agents.config.trust import (
    NAME,
    distrust,
    hooks_of_people,
    read_trust,
    refuse_answers,
    refuse_untrusted,
    trust,
    trusted,
)
from bullpen.agents.contracts.call import Call, Rights
from bullpen.agents.permissions.policy_file import answer_of
from bullpen.errors import NotFound, Refused, Unreadable
from bullpen.protocol.policy import Policy
from support.agents.trusted_projects import ALLOWING, role, settings, spec, stop_hook
from support.offices import Place, opened


async def test_a_project_with_settings_must_be_trusted_first(place: Place) -> None:
    path = settings(place, ALLOWING)
    with pytest.raises(Refused, match=str(path)) as caught:
        await spec(place)
    assert caught.value.reason == "not_trusted"
    assert f"bullpen trust {place.project}" in caught.value.remedy
    trust(place.home, place.project)
    rights = (await spec(place)).policy
    assert (rights.allow, rights.deny) == (["Bash(ls:*)"], ["Bash(rm:*)"])


@pytest.mark.parametrize("told", [{}, {"model": "opus"}, {"permissions": {"allow": []}}])
async def test_settings_that_change_nothing_need_no_trust(place: Place, told: object) -> None:
    settings(place, told)
    assert (await spec(place)).mode == "default"


async def test_the_users_own_files_always_count(tmp_path: Path) -> None:
    own = tmp_path / "user/.claude/settings.json"
    own.parent.mkdir(parents=True)
    own.write_text(json.dumps(ALLOWING), encoding="utf-8")
    async with opened(tmp_path, HOME=str(tmp_path / "user")) as place:
        assert (await spec(place)).policy.deny == ["Bash(rm:*)"]


@pytest.mark.parametrize(
    "front",
    ["permissionMode: acceptEdits\n", f"hooks: {json.dumps(stop_hook('true'))}\n"],
)
async def test_a_role_that_runs_or_allows_something_must_be_trusted(
    place: Place, front: str
) -> None:
    role(place, front)
    for project in (True, False):
        with pytest.raises(Refused) as caught:
            await spec(place, role="reviewer", project_settings=project)
        assert caught.value.reason == "not_trusted"
    trust(place.home, place.project)
    assert (await spec(place, role="reviewer")).role == "reviewer"


async def test_a_role_of_another_kind_needs_no_trust(place: Place) -> None:
    role(place, "tools: Read, Bash(git log:*)\npermissionMode: plan\n")
    made = await spec(place, role="reviewer")
    assert made.mode == "plan" and (made.tools or [])[:2] == ["Read", "Bash(git log:*)"]


async def test_the_mode_is_asked_for_else_the_roles_else_the_settings(place: Place) -> None:
    settings(place, {"permissions": {"defaultMode": "acceptEdits"}})
    trust(place.home, place.project)
    role(place, "permissionMode: plan\n")
    assert (await spec(place)).mode == "acceptEdits"
    assert (await spec(place, role="reviewer")).mode == "plan"
    assert (await spec(place, role="reviewer", mode="dontAsk")).mode == "dontAsk"


async def test_a_rule_that_is_none_is_refused_when_it_is_asked_for(place: Place) -> None:
    with pytest.raises(Refused, match="there is no tool 'Bsh'"):
        await spec(place, policy=Policy.new(allow=["Bsh(x)"]))


def write(path: Path, text: str = "{}") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def state(home: Path, path: Path, folder: Path) -> str:
    return read_trust(home).state((path, folder))


def test_trust_holds_for_a_git_tree_and_for_no_other_tree_in_it(tmp_path: Path) -> None:
    home, tree = tmp_path / "home", tmp_path / "tree"
    for folder in (tree / ".git", tree / "vendor/other/.git"):
        folder.mkdir(parents=True)
    own = write(tree / ".claude/settings.json")
    below = write(tree / "src/.claude/settings.json")
    foreign = write(tree / "vendor/other/.claude/settings.json")
    above = write(tmp_path / ".claude/settings.json")
    assert trust(home, tree).directory == tree
    assert state(home, own, tree) == state(home, below, tree / "src") == "trusted"
    assert state(home, foreign, tree / "vendor/other") == "untrusted"
    assert state(home, above, tmp_path) == "untrusted"


def test_trust_of_a_folder_covers_nothing_above_it(tmp_path: Path) -> None:
    home, tree = tmp_path / "home", tmp_path / "tree"
    (tree / ".git").mkdir(parents=True)
    own = write(tree / ".claude/settings.json")
    below = write(tree / "src/.claude/settings.json")
    assert list(trust(home, tree / "src").covered) == [below]
    assert state(home, own, tree) == "untrusted"
    assert state(home, below, tree / "src") == "trusted"


def test_trust_is_of_the_real_directory(tmp_path: Path) -> None:
    home, real, other = tmp_path / "home", tmp_path / "real", tmp_path / "other"
    for folder in (real, other):
        write(folder / ".claude/settings.json")
    link = tmp_path / "link"
    link.symlink_to(real)
    assert trust(home, link).directory == real
    assert state(home, link / ".claude/settings.json", link) == "trusted"
    link.unlink()
    link.symlink_to(other)
    assert state(home, link / ".claude/settings.json", link) == "untrusted"


def refused(home: Path, *files: Path, project: Path) -> Refused:
    with pytest.raises(Refused) as caught:
        refuse_untrusted([(path, project) for path in files], home, project)
    assert caught.value.reason == "not_trusted"
    return caught.value


def test_a_file_that_changed_since_is_refused_by_name_until_it_is_trusted_again(
    tmp_path: Path,
) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    settings, codex = (write(project / name) for name in (".claude/settings.json", ".codex/a.toml"))
    trust(home, project)
    refuse_untrusted([(settings, project), (codex, project)], home, project)
    settings.write_text('{"hooks": {}}')
    error = refused(home, settings, codex, project=project)
    assert f"changed since you trusted {project}: {settings} (changed)." in error.message
    assert str(codex) not in error.message
    assert f"bullpen trust {project}" in error.remedy
    assert trust(home, project).covered == {settings: "changed", codex: "trusted"}
    refuse_untrusted([(settings, project), (codex, project)], home, project)


def test_a_new_file_in_a_trusted_project_is_refused(tmp_path: Path) -> None:
    """A project that had no settings when it was trusted is not trusted with some."""
    home, project = tmp_path / "home", tmp_path / "project"
    project.mkdir()
    assert trust(home, project).covered == {}
    for name in (".claude/settings.json", ".mcp.json", "sub/.gemini/settings.json"):
        path = write(project / name)
        assert f"{path} (new)" in refused(home, path, project=project).message


def test_a_removed_file_needs_nothing_and_counts_again_when_it_is_back(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    one, two = (write(project / f".claude/settings{name}.json") for name in ("", ".local"))
    trust(home, project)
    two.unlink()
    refuse_untrusted([(one, project)], home, project)
    write(two)
    refuse_untrusted([(one, project), (two, project)], home, project)
    two.unlink()
    done = trust(home, project)
    assert (list(done.covered), done.removed) == ([one], [two])
    assert state(home, write(two), project) == "new"


def test_content_is_trusted_only_where_it_was(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    one = write(project / "docs/.claude/settings.json", "same")
    trust(home, project)
    moved = write(project / ".claude/settings.json", "same")
    assert (state(home, one, project), state(home, moved, project)) == ("trusted", "new")


def test_what_is_checked_is_what_was_read(tmp_path: Path) -> None:
    """Whoever swaps a file between reading and checking gains nothing."""
    home, project = tmp_path / "home", tmp_path / "project"
    path = write(project / ".claude/settings.json", "good")
    good = hashlib.sha256(b"good").hexdigest()
    trust(home, project)
    evil = hashlib.sha256(b"evil").hexdigest()
    with pytest.raises(Refused):
        refuse_untrusted([(path, project, evil)], home, project)
    path.write_text("evil")
    refuse_untrusted([(path, project, good)], home, project)
    trust(home, project, [(path, project, good)])
    assert state(home, path, project) == "changed", "what was shown is trusted, not what came after"


@pytest.mark.parametrize("linked", [".claude", ".claude/settings.json"])
def test_a_link_to_outside_is_not_covered_and_one_inside_is(tmp_path: Path, linked: str) -> None:
    home, project, outside = tmp_path / "home", tmp_path / "project", tmp_path / "outside"
    path = project / ".claude/settings.json"
    for target in (outside, project / "config"):
        write(target / "settings.json")
    for target, state_after in ((outside, "link"), (project / "config", "trusted")):
        link = project / linked
        link.parent.mkdir(exist_ok=True, parents=True)
        link.unlink(missing_ok=True)
        link.symlink_to(target if linked == ".claude" else target / "settings.json")
        trust(home, project)
        assert state(home, path, project) == state_after
    link.unlink()
    link.symlink_to(outside if linked == ".claude" else outside / "settings.json")
    error = refused(home, path, project=project)
    assert "a link to outside the project" in error.message
    assert "Replace the links" in error.remedy


def test_a_project_of_the_old_list_is_not_trusted_any_more_and_is_told_why(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    path = write(project / ".claude/settings.json")
    write(home / NAME, json.dumps({"directories": [str(project), "/other"]}))
    error = refused(home, path, project=project)
    assert "trusted by an older version of Bullpen" in error.message
    assert f"bullpen trust {project}" in error.remedy
    assert trusted(home) == [] and read_trust(home).outdated == [str(project), "/other"]
    trust(home, project)
    assert trusted(home) == [str(project)] and read_trust(home).outdated == ["/other"]
    assert distrust(home, Path("/other")) and read_trust(home).outdated == []


def test_an_import_from_outside_is_trusted_by_its_content(tmp_path: Path) -> None:
    """A caller may give a file outside of the project that the project wants."""
    home, project = tmp_path / "home", tmp_path / "project"
    project.mkdir()
    trust(home, project)
    path = write(tmp_path / "notes.md", "mine")
    assert f"{path} (new)" in refused(home, path, project=project).message


async def test_a_changed_role_is_refused_again(place: Place) -> None:
    role(place, "permissionMode: acceptEdits\n")
    trust(place.home, place.project)
    assert (await spec(place, role="reviewer")).mode == "acceptEdits"
    role(place, "permissionMode: bypassPermissions\n")
    with pytest.raises(Refused, match=r"reviewer.md \(changed\)"):
        await spec(place, role="reviewer")


def test_a_projects_policy_file_answers_only_as_it_was_trusted(tmp_path: Path) -> None:
    """An agent that changes the file during its run does not answer its own requests."""
    home, project = tmp_path / "home", tmp_path / "project"
    path = write(project / ".bullpen/settings.toml", "[answers]\n")
    trust(home, project)
    assert refuse_answers(home, str(path), b"[answers]\n") is None
    why = refuse_answers(home, str(path), b'[answers]\nallow = ["Bash"]\n')
    assert why is not None and f"bullpen trust {project}" in why
    own = write(tmp_path / "answers.toml")
    assert refuse_answers(home, str(own), b"") is None, "a person named it"
    assert refuse_answers(project / ".bullpen", str(path), b"") is None, "it is the user's own"
    call, given = Call("Bash", {"command": "ls"}, "run"), Rights("default", str(project), "/")
    write(path, '[answers]\nallow = ["Bash"]\n')
    assert answer_of(call, given, str(path)).effect == "allow"
    ruling = answer_of(call, given, str(path), partial(refuse_answers, home))
    assert (ruling.effect, "changed since it was trusted" in ruling.why) == ("deny", True)


def test_trust_can_be_taken_back(tmp_path: Path) -> None:
    trust(tmp_path / "home", tmp_path)
    assert distrust(tmp_path / "home", tmp_path)
    assert not distrust(tmp_path / "home", tmp_path)
    assert trusted(tmp_path / "home") == []


def test_what_does_not_exist_cannot_be_trusted(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        trust(tmp_path / "home", tmp_path / "gone")


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"directories": [1]}', '{"directories": [], "projects": {"/a": [1]}}']
)
def test_a_list_that_cannot_be_read_is_not_an_empty_one(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_text(text, encoding="utf-8")
    with pytest.raises(Unreadable):
        trusted(tmp_path)


def test_the_hooks_of_a_trusted_project_count_for_people_too(tmp_path: Path) -> None:
    home, user, project = tmp_path / "home", tmp_path / "user", tmp_path / "project"
    for folder, command in ((user, "mine"), (project, "ours")):
        (folder / ".claude").mkdir(parents=True)
        text = json.dumps({"hooks": stop_hook(command)})
        (folder / ".claude/settings.json").write_text(text, encoding="utf-8")

    def commands() -> list[str]:
        found = hooks_of_people(project, user_home=user, home=home)
        return [hook.command for hook in found.hooks]

    assert commands() == ["mine"]
    trust(home, project)
    assert commands() == ["ours", "mine"]
    path = project / ".claude/settings.json"
    path.write_text(json.dumps({"hooks": stop_hook("evil")}), encoding="utf-8")
    with pytest.raises(Refused, match=r"settings.json \(changed\)"):
        commands()
    path.unlink()
    assert commands() == ["mine"]
