"""Settings files: what of them counts, where it comes from, and what is never taken for nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bullpen.agents.config.settings import FileSettings, read_settings
from bullpen.agents.hooks.hook_set import HookSet
from bullpen.errors import Invalid, Refused, Unreadable
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.policy import Policy


class Files:
    """A git tree, a user and a Bullpen home, with settings in them."""

    def __init__(self, folder: Path) -> None:
        self.user = folder / "user"
        self.home = self.user / ".bullpen"
        self.tree = folder / "tree"
        self.cwd = self.tree / "src"
        (self.tree / ".git").mkdir(parents=True)
        self.cwd.mkdir()
        self.home.mkdir(parents=True)

    def write(self, path: Path, told: object) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(told if isinstance(told, str) else json.dumps(told), encoding="utf-8")
        return path

    def claudes(self, told: object, *, at: Path | None = None, local: bool = False) -> Path:
        name = "settings.local.json" if local else "settings.json"
        return self.write((at or self.tree) / ".claude" / name, told)

    def ours(self, told: str, *, at: Path | None = None) -> Path:
        return self.write((at or self.tree) / ".bullpen/settings.toml", told)

    def read(self, *, project: bool = True) -> FileSettings:
        return read_settings(self.cwd, user_home=self.user, home=self.home, project=project)

    def applied(
        self, *, child: bool = False, policy: Policy | None = None, **fields: Any
    ) -> AgentSpec:
        raw = None if policy is None else policy.raw
        spec = AgentSpec.new(
            driver="native", backend="in-process", cwd=str(self.cwd), policy=raw, **fields
        )
        stated = policy.stated_fields if policy is not None else ()
        return self.read().applied(spec, stated=stated, child=child)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def permissions(**told: Any) -> dict[str, Any]:
    return {"permissions": told}


def stop_hook(command: str) -> dict[str, Any]:
    return {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": command}]}]}}


def test_without_files_everything_is_as_it_was_asked_for(files: Files) -> None:
    spec = files.applied()
    assert (spec.mode, spec.hooks) == ("default", None)
    assert spec.policy.allow == [] and spec.policy.deny == []


def test_lists_of_all_files_add_up_and_each_rule_has_its_source(files: Files) -> None:
    paths = [
        files.ours('[permissions]\ndeny = ["Bash(rm:*)"]', at=files.cwd),
        files.claudes(permissions(deny=["Read(.env)"]), at=files.cwd, local=True),
        files.claudes(permissions(deny=["Bash(sudo:*)", "Bash(rm:*)"]), at=files.cwd),
        files.claudes(permissions(deny=["Bash(git push:*)"])),
        files.write(files.home / "settings.toml", '[permissions]\ndeny = ["Bash(dd:*)"]'),
        files.claudes(permissions(deny=["Bash(curl:*)"]), at=files.user),
    ]
    policy = files.applied().policy
    assert policy.deny == [
        "Bash(rm:*)",
        "Read(.env)",
        "Bash(sudo:*)",
        "Bash(git push:*)",
        "Bash(dd:*)",
        "Bash(curl:*)",
    ]
    assert [policy.sources[rule] for rule in policy.deny] == [str(path) for path in paths]


def test_what_was_asked_for_comes_first_and_files_are_added(files: Files) -> None:
    files.claudes(permissions(allow=["Bash(ls:*)"], defaultMode="acceptEdits"))
    asked = Policy.new(allow=["Bash(git:*)"])
    spec = files.applied(policy=asked, mode="plan")
    assert (spec.mode, spec.policy.allow) == ("plan", ["Bash(git:*)", "Bash(ls:*)"])


def test_of_one_value_the_nearest_counts_and_ours_before_claude_codes(files: Files) -> None:
    files.claudes(permissions(defaultMode="plan"), at=files.user)
    assert files.applied().mode == "plan"
    files.claudes(permissions(defaultMode="acceptEdits"))
    assert files.applied().mode == "acceptEdits"
    files.ours('[permissions]\nmode = "dontAsk"')
    assert files.applied().mode == "dontAsk"
    files.claudes(permissions(defaultMode="default"), at=files.cwd)
    assert files.applied().mode == "default"


OURS = """
[permissions]
approver = "lead"
deadline_s = 30
directories = ["../docs"]
[answers]
allow = ["Bash(git status)"]
[plans]
approver = "rule"
rule = "./check-plan"
after = "default"
[sandbox]
network = true
write = ["~/cache"]
[[hooks.TaskCompleted]]
run = "make test"
timeout_s = 5
"""


def test_our_own_file_can_say_all_that_a_spawn_can(files: Files) -> None:
    path = files.ours(OURS)
    policy = files.applied().policy
    assert (policy.approver, policy.deadline_s) == ("lead", 30.0)
    assert policy.answers == str(path)
    assert (policy.plan_approver, policy.plan_rule) == ("rule", "./check-plan")
    assert policy.after_plan == "default"
    assert policy.directories == [str(files.tree.parent / "docs")]
    sandbox = policy.sandbox
    assert sandbox is not None and sandbox.network
    assert sandbox.write == [str(files.user / "cache")]
    (hook,) = HookSet.of(files.applied().hooks).hooks
    assert (hook.event, hook.command, hook.timeout_s) == ("TaskCompleted", "make test", 5.0)
    assert (hook.source, hook.project) == (str(path), str(files.tree))


def test_the_breaker_is_set_in_our_own_file(files: Files) -> None:
    files.ours("[hooks]\nbreaker = 2\n")
    assert HookSet.of(files.applied().hooks).breaker == 2


def test_what_was_asked_for_is_not_changed_by_a_file(files: Files) -> None:
    files.ours(OURS)
    asked = Policy.new(approver="human", deadline_s=600.0, sandbox=None)
    policy = files.applied(policy=asked).policy
    assert (policy.approver, policy.deadline_s, policy.sandbox) == ("human", 600.0, None)
    assert policy.plan_rule == "./check-plan"


def test_rules_that_answer_make_the_policy_the_approver(files: Files) -> None:
    files.ours('[answers]\nallow = ["Bash(git:*)"]')
    assert files.applied().policy.approver == "policy"


def test_hooks_of_all_files_add_up(files: Files) -> None:
    files.claudes(stop_hook("one"), at=files.cwd)
    files.claudes(stop_hook("two"))
    files.claudes(stop_hook("three"), at=files.user)
    found = HookSet.of(files.applied().hooks).hooks
    assert [hook.command for hook in found] == ["one", "two", "three"]
    # The user's own hooks are about the project, too.
    assert [hook.project for hook in found] == [str(files.cwd), str(files.tree), str(files.tree)]


def test_a_child_has_from_files_only_what_forbids_it_more(files: Files) -> None:
    files.claudes(
        {
            **permissions(allow=["Bash"], deny=["Bash(rm:*)"], defaultMode="bypassPermissions"),
            **stop_hook("x"),
        }
    )
    files.ours('[permissions]\napprover = "policy"\ndirectories = ["/"]')
    spec = files.applied(child=True)
    assert (spec.mode, spec.policy.allow, spec.policy.deny) == (None, [], ["Bash(rm:*)"])
    assert (spec.policy.approver, spec.policy.directories) == ("human", [])
    assert spec.hooks is not None


def test_a_rule_from_the_root_of_the_project_means_the_same_further_down(files: Files) -> None:
    files.claudes(permissions(allow=["Edit(/docs/**)", "Edit(//tmp/x)", "Read(./a)"]))
    assert files.applied().policy.allow == [
        f"Edit(/{files.tree}/docs/**)",
        "Edit(//tmp/x)",
        "Read(./a)",
    ]


def test_only_the_users_own_files_count_without_those_of_the_project(files: Files) -> None:
    files.claudes(permissions(deny=["Bash(a)"]))
    files.claudes(permissions(deny=["Bash(b)"]), at=files.user)
    found = files.read(project=False)
    assert [each.rules["deny"] for each in found.files] == [["Bash(b)"]]
    assert found.of_project == []


def test_the_file_of_the_user_is_not_one_of_the_project_when_one_works_at_home(
    tmp_path: Path,
) -> None:
    files = Files(tmp_path)
    files.claudes(permissions(deny=["Bash(b)"]), at=files.user)
    files.write(files.home / "settings.toml", '[permissions]\ndeny = ["Bash(c)"]')
    found = read_settings(files.user, user_home=files.user, home=files.home)
    assert found.of_project == [] and len(found.files) == 2


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"model": "opus", "$schema": "x"}, ["model is not used"]),
        (permissions(allow=["SlashCommand(x)"]), ["SlashCommand(x) is about a tool"]),
        (permissions(allow=["Hologram"]), ["Hologram is about a tool"]),
        (permissions(defaultMode="auto"), ["there is no mode 'auto'"]),
        (permissions(skipDangerous=True), ["permissions.skipDangerous is not used"]),
        (
            {"hooks": {"Notification": [{"hooks": [{"type": "command", "command": "x"}]}]}},
            ["not run"],
        ),
    ],
)
def test_what_claude_codes_file_says_for_others_is_listed(
    files: Files, told: object, words: list[str]
) -> None:
    files.claudes(told)
    files.applied()
    unused = files.read().unused
    assert len(unused) == len(words)
    for line, each in zip(unused, words, strict=True):
        assert each in line


def test_a_file_that_disables_the_widest_mode_is_obeyed(files: Files) -> None:
    path = files.claudes(permissions(disableBypassPermissionsMode="disable"))
    with pytest.raises(Refused, match=str(path)) as caught:
        files.applied(mode="bypassPermissions")
    assert caught.value.reason == "mode_disabled"
    assert files.applied(mode="acceptEdits").mode == "acceptEdits"


UNREADABLE: list[object] = [
    "{",
    "[]",
    "null",
    {"permissions": []},
    permissions(allow="Bash"),
    permissions(deny=[1]),
    permissions(additionalDirectories="x"),
    {"hooks": []},
]


@pytest.mark.parametrize("told", UNREADABLE)
def test_a_file_that_cannot_be_read_is_an_error_and_not_empty(files: Files, told: object) -> None:
    path = files.claudes(told)
    with pytest.raises(Unreadable, match=str(path)):
        files.read()


def test_a_directory_in_the_place_of_a_file_is_an_error(files: Files) -> None:
    (files.tree / ".claude/settings.json").mkdir(parents=True)
    with pytest.raises(Unreadable):
        files.read()


@pytest.mark.parametrize("told", ["[permissions", "x = \x00"])
def test_toml_that_is_none_is_an_error(files: Files, told: str) -> None:
    path = files.ours(told)
    with pytest.raises(Unreadable, match=str(path)):
        files.read()


INVALID = [
    ("[permission]\n", "permission is unknown"),
    ("[permissions]\nallowed = []\n", "permissions.allowed is unknown"),
    ('[permissions]\nmode = "yolo"\n', "permissions.mode"),
    ("[permissions]\ndeadline_s = 0\n", "permissions.deadline_s"),
    ('[permissions]\nallow = ["Bsh"]\n', "there is no tool 'Bsh'"),
    ('[answers]\nallow = ["Bash("]\n', "parentheses do not match"),
    ('[web]\nsearch_url = "https://x.org/"\n', "search_url is 'https://x.org/', not a URL with"),
    ('[[hooks.PreCompact]]\nrun = "x"\n', "unknown event 'PreCompact'"),
]


@pytest.mark.parametrize(("told", "words"), INVALID)
def test_an_unknown_word_in_our_own_file_is_refused_by_name(
    files: Files, told: str, words: str
) -> None:
    path = files.ours(told)
    with pytest.raises(Invalid, match=words) as caught:
        files.read()
    assert str(path) in caught.value.message


def test_a_broken_rule_in_claude_codes_file_is_refused(files: Files) -> None:
    """A deny rule that is left out because it is misspelt would allow what it was to forbid."""
    path = files.claudes(permissions(deny=["Bash(rm:*"]))
    with pytest.raises(Invalid, match=str(path)):
        files.read()


def test_commands_after_an_edit_add_up_and_need_trust(files: Files) -> None:
    files.write(files.home / "settings.toml", '[after_edit]\n"*.py" = ["mine {file}"]\n')
    ours = files.ours('[after_edit]\n"*.py" = ["ruff {file}"]\n"*.ts" = ["tsc"]\n')
    for child in (False, True):
        spec = files.applied(child=child)
        assert spec.after_edit == {"*.py": ["mine {file}", "ruff {file}"], "*.ts": ["tsc"]}
    assert [path for path, _, _ in files.read().of_project] == [ours]
    assert files.read(project=False).after_edit({}) == {"*.py": ["mine {file}"]}
    files.ours('[after_edit]\n"*.py" = "ruff"\n')
    with pytest.raises(Invalid, match=r"after_edit"):
        files.read()


SEARCH = "https://search.example.org/?format=json&q={query}"


def test_the_endpoint_of_searches_is_an_option_of_the_agent(files: Files) -> None:
    files.write(files.home / "settings.toml", '[web]\nsearch_url = "https://mine.org/{query}"\n')
    assert files.applied().options == {"search_url": "https://mine.org/{query}"}
    files.ours(f'[web]\nsearch_url = "{SEARCH}"\n')
    assert files.applied().options == {"search_url": SEARCH}
    assert files.read().of_project, "a project must not send searches anywhere without trust"


def test_a_child_searches_where_its_parent_does(files: Files) -> None:
    files.ours(f'[web]\nsearch_url = "{SEARCH}"\n')
    assert files.applied(child=True).options == {}
