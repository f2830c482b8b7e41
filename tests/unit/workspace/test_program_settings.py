"""What git is told instead of what a repository says about programs."""

from __future__ import annotations

from bullpen.workspace.git.program_settings import (
    Setting,
    as_variables,
    overrides,
    protocols,
    settings_in,
)
from bullpen.workspace.git.run_git import _with_options
from support.rows import each_row

THEIRS = "touch canary"


def told(*found: Setting, stores: bool = False) -> dict[str, str]:
    return dict(overrides(found, stores=stores))


def test_settings_are_read_with_their_scope_and_any_value() -> None:
    listed = "global\0user.name\nAnn\0local\0alias.x\na\nb\0worktree\0core.bare\0"
    assert settings_in(listed) == [
        Setting("global", "user.name", "Ann"),
        Setting("local", "alias.x", "a\nb"),
        Setting("worktree", "core.bare", ""),
    ]


@each_row("scope", ["local", "worktree", "unknown", "some later scope"])
@each_row(
    "key",
    [
        "core.sshcommand", "core.askpass", "core.editor", "sequence.editor", "diff.external",
        "diff.x.y.command", "diff.x.textconv", "merge.x.driver", "gpg.program", "gpg.ssh.program",
        "gpg.ssh.defaultkeycommand", "submodule.a b.update", "trailer.x.cmd", "hook.x.command",
        "filter.x.clean", "filter.x.y.smudge", "filter.x.process", "lfs.extension.x.clean",
        "lfs.customtransfer.x.path", "http.savecookies", "http.https://x.savecookies",
    ],
)  # fmt: skip
def test_a_program_of_a_repository_is_replaced(scope: str, key: str) -> None:
    for stores in (False, True):
        replaced = told(Setting(scope, key, THEIRS), stores=stores)
        assert replaced[key] != THEIRS


def test_what_the_user_configured_comes_back() -> None:
    users = Setting("global", "core.sshcommand", "ssh -F mine")
    assert told(users, Setting("local", "core.sshcommand", THEIRS)) == {
        "core.sshcommand": "ssh -F mine"
    }
    assert told(users) == {}


def test_a_filter_of_the_user_beats_one_of_the_repository_whole() -> None:
    found = [
        Setting("global", "filter.lfs.clean", "git-lfs clean -- %f"),
        Setting("global", "filter.lfs.required", "true"),
        Setting("local", "filter.lfs.process", THEIRS),
    ]
    assert told(*found, stores=True) == {
        "filter.lfs.clean": "git-lfs clean -- %f",
        "filter.lfs.smudge": "",
        "filter.lfs.process": "",
        "filter.lfs.required": "true",
    }


def test_files_are_looked_at_without_a_filter_but_not_stored_without_it() -> None:
    one = Setting("local", "filter.crypt.clean", THEIRS)
    looks, stores = told(one), told(one, stores=True)
    assert (looks["filter.crypt.clean"], looks["filter.crypt.required"]) == ("", "false")
    assert (stores["filter.crypt.clean"], stores["filter.crypt.required"]) == ("false", "true")
    # Files can be written: there was no filter for that.
    assert stores["filter.crypt.smudge"] == "cat"


def test_helpers_of_the_repository_are_forgotten_and_the_users_kept_in_order() -> None:
    found = [
        Setting("system", "credential.helper", "store"),
        Setting("global", "credential.https://a=b.helper", "mine"),
        Setting("local", "credential.helper", "!touch canary"),
    ]
    assert overrides(found, stores=False) == [
        ("credential.helper", ""),
        ("credential.helper", "store"),
        ("credential.https://a=b.helper", "mine"),
    ]


def test_protocols_are_the_users_and_a_repository_has_no_say() -> None:
    local = Setting("local", "protocol.ext.allow", "always")
    assert protocols([local], from_user=True) == "file:git:http:https:ssh"
    assert protocols([local], from_user=False) == "git:http:https:ssh"
    mine = [Setting("global", "protocol.allow", "never")]
    assert protocols(mine, from_user=True) == "none"
    mine.append(Setting("global", "protocol.codecommit.allow", "always"))
    assert protocols(mine, from_user=False) == "codecommit"


def test_variables_come_after_those_that_are_there() -> None:
    assert as_variables([("a.b", "c")], {"GIT_CONFIG_COUNT": "2"}) == {
        "GIT_CONFIG_COUNT": "3",
        "GIT_CONFIG_KEY_2": "a.b",
        "GIT_CONFIG_VALUE_2": "c",
    }
    assert as_variables([], {}) == {}


def test_options_go_behind_the_command_and_what_is_said_stays() -> None:
    verb, words = _with_options(("-c", "a.b=c", "--literal-pathspecs", "status", "--", "x"))
    assert verb == "status"
    assert words[3:] == ("status", "--ignore-submodules=dirty", "--", "x")
    said = ("diff-index", "--ignore-submodules=none", "HEAD")
    assert "--ignore-submodules=dirty" not in _with_options(said)[1]
