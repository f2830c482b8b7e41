"""The rule language: what rules are about, and what becomes of those that cannot be read."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given as given_any
from hypothesis import settings
from hypothesis import strategies as st

from bullpen.agents.contracts.call import Call, Rights, Ruling
from bullpen.agents.permissions.decide import decide
from bullpen.agents.permissions.rule_language.rule import check_rules
from bullpen.agents.tools.toolbox import TOOLS
from bullpen.errors import Invalid
from bullpen.protocol.policy import Mode
from support.rows import each_row
from support.steps import steps

KNOWN = [tool.name for tool in TOOLS]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project/src").mkdir(parents=True)
    (tmp_path / "project/.env").write_text("KEY=1\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "project/out").mkdir()
    for link in ("link", "src/out"):
        (tmp_path / "project" / link).symlink_to(tmp_path / "outside")
    return tmp_path / "project"


def rights(project: Path, mode: Mode = "dontAsk", **lists: Any) -> Rights:
    return Rights(mode, str(project), str(project.parent / "home"), **lists)


def run(command: str, given: Rights) -> Ruling:
    return decide(Call("Bash", {"command": command}, "run"), given)


def allows(project: Path, rule: str, command: str) -> bool:
    return run(command, rights(project, allow=(rule,))).effect == "allow"


@each_row(
    "rule",
    [
        "Bash",
        "Bash(*)",
        "Bash(git:*)",
        "Bash(git log *)",
        "Bash(npm test)",
        "Bash(npm run lint && npm test)",
        "Bash(git * main)",
        "Read(~/**)",
        "Edit",
        "Edit(/src/**)",
        "Write(docs)",
        "Glob(//tmp/**)",
        "mcp__*",
        "mcp__github",
        "mcp__github__search_issues",
        "mcp__github__*",
        "mcp__my-server_2__get.it",
        "SendMessage",
        "WebFetch(domain:example.com)",
        "WebSearch",
        " Read(x) ",
    ],
)
def test_rules_as_in_the_settings_of_claude_code_are_taken(rule: str) -> None:
    check_rules([rule], KNOWN)


@each_row(
    ("rule", "why"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("Bsah(git:*)", "no tool 'Bsah'"),
        ("bash", "no tool 'bash'"),
        ("Bash(git:*", "parentheses"),
        ("Bash)git(", "parentheses"),
        ("Bash(a)(b)", "parentheses"),
        ("Bash(a) b", "parentheses"),
        ("Bash()", "nothing between"),
        ("Bash( )", "nothing between"),
        ("Bash(:*)", "not a command"),
        ("Bash(a; b:*)", "not a command"),
        ("Bash('a:*)", "not a command"),
        ("Read([z-a])", "not a path pattern"),
        ("Read(!x)", "not a path pattern"),
        ("(x)", "name of a tool"),
        ("SendMessage(bob)", "SendMessage takes no specifier"),
        ("mcp__", "MCP rules"),
        ("mcp__*__x", "MCP rules"),
        ("mcp__a__get_*", "MCP rules"),
        ("mcp__a__b(c)", "MCP rules"),
        ("*", "name of a tool"),
    ],
)
def test_a_rule_that_means_nothing_is_refused_when_it_is_given(rule: str, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        check_rules(["Read", rule], KNOWN)


def test_all_wrong_rules_are_named_at_once() -> None:
    with pytest.raises(Invalid) as refused:
        check_rules(["Nope", "Bash(", "Read"], KNOWN)
    assert "'Nope'" in refused.value.message
    assert "'Bash('" in refused.value.message
    assert "'Read'" not in refused.value.message


@pytest.mark.parametrize("rule", ["Bash(git:*", "Bash()", "Bash(:*)", "bash(git:*", "Bash(a)(b)"])
def test_a_stored_rule_that_cannot_be_read_is_taken_strictly(rule: str, project: Path) -> None:
    """It allows nothing; where it forbids or asks, it is about the whole tool."""
    assert run("git status", rights(project, allow=(rule,))).effect == "deny"
    assert run("ls", rights(project, "bypassPermissions", deny=(rule,))).effect == "deny"
    assert run("ls", rights(project, "bypassPermissions", ask=(rule,))).effect == "ask"
    read = Call("Read", {"file_path": "src/a"}, "read")
    assert decide(read, rights(project, deny=(rule,))).effect == "allow"


def test_a_specifier_that_only_others_know_is_taken_strictly(project: Path) -> None:
    call = Call("SlashCommand", {"command": "/sing"}, "run")
    rule = "SlashCommand(/sing)"
    assert decide(call, rights(project, allow=(rule,))).effect == "deny"
    assert decide(call, rights(project, "bypassPermissions", deny=(rule,))).effect == "deny"
    assert decide(call, rights(project, allow=("SlashCommand",))).effect == "allow"


def test_a_prefix_is_one_of_whole_words(project: Path) -> None:
    for rule in ("Bash(git log:*)", "Bash(git log *)"):
        assert allows(project, rule, "git log")
        assert allows(project, rule, "git log --oneline -3")
        assert allows(project, rule, "'git' \"log\" x")
        assert not allows(project, rule, "git logx")
        assert not allows(project, rule, "git status")
        assert not allows(project, rule, "gitlog")
        assert not allows(project, rule, "git -p log")
    assert allows(project, "Bash(npm test)", "npm  test")
    assert not allows(project, "Bash(npm test)", "npm test x")
    assert allows(project, "Bash", "anything | at all > /etc/x")
    assert allows(project, "Bash(*)", "for i in 1; do x; done")


def test_a_star_in_a_rule_stands_for_words(project: Path) -> None:
    assert allows(project, "Bash(git * main)", "git checkout main")
    assert allows(project, "Bash(git * main)", "git diff a main")
    assert not allows(project, "Bash(git * main)", "git main")
    assert not allows(project, "Bash(git * main)", "git checkout maintenance")
    assert allows(project, "Bash(npm run test*)", "npm run test-unit")
    assert not allows(project, "Bash(npm run test*)", "npm run test-unit x")


def test_a_rule_can_be_a_whole_line(project: Path) -> None:
    rule = "Bash(npm run lint && npm test > /tmp/x)"
    assert allows(project, rule, "npm run lint && npm test > /tmp/x")
    assert not allows(project, rule, "npm run lint && npm test > /tmp/y")
    assert not allows(project, rule, "npm run lint")


def test_every_part_of_a_line_must_be_allowed(project: Path) -> None:
    git = "Bash(git:*)"
    assert allows(project, git, "git status && git log | git shortlog")
    for command in (
        "git status; rm x",
        "git status | sh",
        "git status && $X",
        "git log $(rm x)",
        "git log `rm x`",
        "git log <(rm x)",
        "X=1 git status",
        "git status &\nrm x",
        "./git status",
        "/tmp/git status",
        "env git status",
        "if git status; then git log; fi",
        "! git status",
        "git log --output=/tmp/x",
        "git -c core.pager=x log",
    ):
        assert not allows(project, git, command), command


def test_a_rule_may_name_the_option_that_makes_a_command_dangerous(project: Path) -> None:
    assert not allows(project, "Bash(find:*)", "find . -delete")
    assert allows(project, "Bash(find . -delete)", "find . -delete")


def test_a_line_may_go_to_a_directory_inside(project: Path) -> None:
    rule = "Bash(make:*)"
    assert allows(project, rule, "cd src && make")
    assert allows(project, rule, f"cd {project}/src && cd {project} && make")
    for command in (
        "cd .. && make",
        "cd link && make",
        "cd && make",
        "cd - && make",
        "cd $X && make",
        "cd ~ && make",
        "cd src && cd .. && make",
        "cd src && cd out && make",
        "cd src > x && make",
        "pushd src && make",
        "cd src",
    ):
        assert not allows(project, rule, command), command
    assert not allows(project, "Bash(./run.sh:*)", "cd src && ./run.sh")
    assert allows(project, "Bash(./run.sh:*)", "./run.sh")
    # A directory can be a repository of its own, whose settings make git run programs.
    assert not allows(project, "Bash(git status:*)", "cd src && git status")


def test_a_redirection_needs_what_writing_the_file_needs(project: Path) -> None:
    echo = ("Bash(echo:*)",)
    edits = rights(project, "acceptEdits", allow=echo)
    assert run("echo x > src/a", edits).effect == "allow"
    assert run("echo x 2>/dev/null >/dev/stderr", rights(project, allow=echo)).effect == "allow"
    assert run("echo x < src/a", rights(project, allow=echo)).effect == "allow"
    assert run("echo x > src/a", rights(project, allow=(*echo, "Edit(/src/**)"))).effect == "allow"
    assert run("echo x > src/a", rights(project, allow=echo)).effect == "deny"
    for command in (
        "echo x > /tmp/a",
        "echo x > link/a",
        "echo x > $HOME/a",
        "echo x > ~/a",
        "echo x >> ../a",
        "cd src && echo x > a",
        "echo x > .git/config",
        "> ../a; echo x",
        "echo x < ../outside/a",
    ):
        assert run(command, edits).effect == "ask", command


@pytest.mark.parametrize(
    "command",
    [
        "rm x",
        "/bin/rm x",
        "./tools/rm x",
        "\\rm x",
        "'rm' x",
        "a && rm x",
        "a | (b; rm x)",
        "echo $(rm x)",
        "X=1 rm x",
        "env rm x",
        "env A=b -i rm x",
        "env -S 'rm x'",
        "sudo -u me rm x",
        "command rm x",
        "nohup rm x &",
        "timeout 5 rm x",
        "xargs -n 1 rm < y",
        "find . -name y -exec rm {} +",
        "bash -c 'cd y; rm x'",
        'sudo sh -c "nice rm x"',
        "busybox rm x",
        "nice -n 5 timeout 3 rm x",
        "if true; then rm x; fi",
    ],
)
def test_deny_finds_a_program_wherever_it_stands(command: str, project: Path) -> None:
    given = rights(project, "bypassPermissions", deny=("Bash(rm:*)",))
    assert run(command, given).effect == "deny"


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("Bash(git push:*)", "git -C . push"),
        ("Bash(git push:*)", "git --no-pager push origin"),
        ("Bash(git push:*)", "git -c a=b -C x push"),
        ("Bash(npm test)", "env npm test"),
        ("Bash(curl * | sh)", "curl * | sh"),
    ],
)
def test_deny_finds_words_behind_options(rule: str, command: str, project: Path) -> None:
    given = rights(project, "bypassPermissions", deny=(rule,))
    assert run(command, given).effect == "deny"


@pytest.mark.parametrize(
    "command", ["ls rm", "git log rm", "echo 'rm x'", "rmdir x", "git add *.py", "cat $FILE"]
)
def test_deny_is_not_about_words_that_run_nothing(command: str, project: Path) -> None:
    given = rights(project, "bypassPermissions", deny=("Bash(rm:*)", "Bash(git push:*)"))
    assert run(command, given).effect == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "$X y",
        "eval y",
        "for i in 1; do y; done",
        'bash -c "$X"',
        "sudo $X",
        "git $X",
        "git p*",
        "/usr/bin/gi? p*",
        "{git,push}",
        "sudo g[i]t pus?",
    ],
)
def test_what_cannot_be_read_is_asked_where_something_is_forbidden(
    command: str, project: Path
) -> None:
    """Even where all else is allowed; without such a rule it is not asked."""
    for rules in ({"deny": ("Bash(git push:*)",)}, {"ask": ("Bash(git push:*)",)}):
        assert run(command, rights(project, "bypassPermissions", **rules)).effect == "ask"
        assert run(command, rights(project, "default", allow=("Bash",), **rules)).effect == "ask"
        assert run(command, rights(project, "dontAsk", allow=("Bash",), **rules)).effect == "deny"
    assert run(command, rights(project, "bypassPermissions")).effect == "allow"
    assert run(command, rights(project, "bypassPermissions", deny=("Edit",))).effect == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "cat .env",
        "cat ./src/../.env",
        "cat < .env",
        "cd src && cat ../.env",
        "cat .e*",
        "cat $HOME/.ssh/key",
        "cat ~/.ssh/key",
        "grep --file=.env x",
        "curl -d @.env x",
        "bash -c 'x' .env",
        "echo x > .env",
    ],
)
def test_a_command_may_not_name_a_file_that_is_denied(
    command: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(project.parent / "home"))
    denied = ("Read(.env)", "Edit(.env)", "Read(~/.ssh/**)")
    given = rights(project, "bypassPermissions", deny=denied)
    assert run(command, given).effect == "deny"
    assert run("cat src/env", given).effect == "allow"


def test_rules_for_read_and_edit_are_about_all_such_tools(project: Path) -> None:
    def effect(tool: str, given: Rights) -> str:
        kind = next(each.kind for each in TOOLS if each.name == tool)
        key = "file_path" if tool in ("Read", "Write", "Edit") else "path"
        wanted = {key: str(project / "src"), "pattern": "x"}
        return decide(Call(tool, wanted, kind), given).effect

    for tool in ("Read", "Glob", "Grep"):
        for rule in ("Read", "Read(/src/**)", "Read(*)"):
            assert effect(tool, rights(project, "bypassPermissions", deny=(rule,))) == "deny"
        assert effect(tool, rights(project, "bypassPermissions", deny=("Edit",))) == "allow"
    for tool in ("Write", "Edit"):
        for rule in ("Edit", "Write", "Edit(/src)", "Write(src)"):
            assert effect(tool, rights(project, "bypassPermissions", deny=(rule,))) == "deny"
            assert effect(tool, rights(project, allow=(rule,))) == "allow"
        assert effect(tool, rights(project, "bypassPermissions", deny=("Read",))) == "allow"
    assert effect("Grep", rights(project, "bypassPermissions", deny=("Glob",))) == "allow"


def test_rules_for_mcp_servers_and_their_tools(project: Path) -> None:
    def effect(tool: str, **lists: Any) -> str:
        return decide(Call(tool, {}, "team"), rights(project, **lists)).effect

    for rule in ("mcp__a", "mcp__a__*", "mcp__a__b"):
        assert effect("mcp__a__b", allow=(rule,)) == "allow"
        assert effect("mcp__a__b", deny=(rule,), mode="bypassPermissions") == "deny"
        assert effect("mcp__ab__b", allow=(rule,)) == "deny"
        assert effect("mcp__ab__b", deny=(rule,), mode="bypassPermissions") == "allow"
    assert effect("mcp__a__b", allow=("mcp__*",)) == "allow"
    assert effect("mcp__a__b", deny=("mcp__*",), mode="bypassPermissions") == "deny"
    assert effect("Bash", deny=("mcp__*",), mode="bypassPermissions") == "allow"
    assert effect("mcp__a__bc", allow=("mcp__a__b",)) == "deny"
    assert effect("mcp__a__b__c", allow=("mcp__a__b",)) == "deny"
    assert effect("mcp__a__b__c", deny=("mcp__a__b",), mode="bypassPermissions") == "deny"
    assert effect("mcp__a__get_x", deny=("mcp__a__get_*",), mode="bypassPermissions") == "deny"


def test_a_tool_that_was_given_in_part_does_only_that_part(project: Path) -> None:
    given = rights(project, "bypassPermissions", tools=("Bash(make:*)", "Read", "Edit(/src/**)"))
    assert run("make test", given).effect == "allow"
    assert run("cd src && make test", given).effect == "allow"
    assert run("ls", given).effect == "deny"
    assert run("make; ls", given).effect == "deny"
    assert decide(Call("Read", {"file_path": "/etc/x"}, "read"), given).effect == "allow"
    assert decide(Call("Edit", {"file_path": "src/x"}, "write"), given).effect == "allow"
    assert decide(Call("Edit", {"file_path": "x"}, "write"), given).effect == "deny"
    assert decide(Call("Write", {"file_path": "src/x"}, "write"), given).effect == "deny"
    assert decide(Call("Grep", {"pattern": "x"}, "read"), given).effect == "deny"
    assert decide(Call("TaskList", {}, "team"), given).effect == "deny"
    mode_holds = rights(project, "default", tools=("Bash(git:*)",))
    assert run("git status", mode_holds).effect == "ask"


@pytest.mark.parametrize(
    ("command", "lists", "why"),
    [
        ("rm x", {"deny": ("Bash(rm:*)",)}, "the rule Bash(rm:*) denies it"),
        ("rm x", {"ask": ("Bash(rm:*)",)}, "the rule Bash(rm:*) asks for approval"),
        ("rm x", {}, "the mode default asks before running commands"),
        (
            "git status && rm x",
            {"allow": ("Bash(git:*)",)},
            "no rule allows 'rm x', and the mode default asks before running commands",
        ),
    ],
)
def test_the_reason_is_a_clause_that_people_can_read(
    command: str, lists: dict[str, Any], why: str, project: Path
) -> None:
    assert run(command, rights(project, "default", **lists)).why == why


def test_words_for_other_programs_are_not_taken_for_commands(project: Path) -> None:
    given = rights(project, "bypassPermissions", deny=("Bash(rm:*)",))
    for command in (
        "find . -name '*.py' -exec grep x {} \\;",
        "xargs awk '{print $1}'",
        "timeout 5 grep 'a; b' x",
        "bash -c 'ls -l'",
        "timeout 5 pytest tests/*.py",
        "sudo ls ~/x",
    ):
        assert run(command, given).effect == "allow", command


def test_a_line_of_very_many_words_is_decided_in_few_steps(project: Path) -> None:
    """And what is not looked at is not taken for harmless."""
    denied = {"deny": ("Bash(rm x:*)", "Bash(git * push)", "Read(.env)")}
    given = rights(project, "bypassPermissions", **denied)
    many = (
        "xargs " + "$a " * 30_000 + "rm x",
        "sudo " + "a " * 30_000 + "rm x",
        "echo " + " ".join(f"f{i}" for i in range(20_000)),
    )
    for line in many:
        assert run(line, given).effect != "allow"
        steps(partial(run, line, given), at_most=1_000_000)
    assert run("cat /*/*/*/*/*/.env", given).effect == "ask"
    steps(partial(run, "cat /*/*/*/*/*/.env", given), at_most=2_000_000)


_TEXT = st.text(max_size=40) | st.sampled_from(["~\ud800", "~\udcff/x", "\0", "a\0b", "../\ud800"])


@settings(max_examples=200, deadline=None)
@given_any(text=_TEXT, rule=_TEXT, tool=st.sampled_from(["Bash", "Read", "Write", "Glob", "Grep"]))
def test_whatever_is_written_there_is_a_verdict(text: str, rule: str, tool: str) -> None:
    """No command, path or rule makes the gate break off."""
    kind = next(each.kind for each in TOOLS if each.name == tool)
    wanted = {"command": text, "file_path": text, "path": text, "pattern": text}
    texts = (rule, f"{tool}({rule})", f"{tool}({rule}:*)")
    for name in ("allow", "deny", "ask", "tools"):
        lists: dict[str, Any] = {name: texts}
        given = Rights("default", "/tmp", "/nowhere", **lists)
        assert decide(Call(tool, wanted, kind), given).effect in ("allow", "ask", "deny")


@pytest.mark.parametrize("name", ["Task", "SpawnTeammate"])
def test_a_rule_about_one_name_of_a_tool_is_about_the_other_too(project: Path, name: str) -> None:
    check_rules([name], KNOWN)
    for other in ("Task", "SpawnTeammate"):
        call = Call(other, {"name": "zoe", "prompt": "Go"}, "team")
        assert decide(call, rights(project, "default", deny=(name,))).effect == "deny"
        assert decide(call, rights(project, "default", tools=(name,))).effect == "allow"
        assert decide(call, rights(project, "default", tools=("TaskGet",))).effect == "deny"
