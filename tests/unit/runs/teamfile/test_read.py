"""Reading team files: what they say, and what is told about one that is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from bullpen.agents.config.spec import SpawnRequest
from bullpen.app.app import App
from bullpen.app.settings import settings_from
from bullpen.errors import Invalid, NotFound
from bullpen.protocol.agent import AgentFacts, AgentSpec
from bullpen.protocol.team import MergeSettings
from bullpen.runs.teamfile import mistakes, tables, team_records
from bullpen.runs.teamfile import read as reading
from bullpen.runs.teamfile.backlog.backlog import new_drafts
from bullpen.runs.teamfile.file_table import FileTable
from bullpen.runs.teamfile.forge_table import ForgeTable
from bullpen.runs.teamfile.notify_table import NotifyTable
from bullpen.runs.teamfile.read import read_team_file
from bullpen.store.memory import MemoryStore
from support.rows import each_row

PAGE = Path(__file__).parents[4] / "docs/reference/team-file.md"
TEAM = '[team]\nname = "docs"\ngoal = "Write the manual."\n'
MEMBERS = '[[member]]\nname = "ann"\n[[member]]\nname = "bob"\ndriver = "codex"\n'
TASKS = """
[[task]]
id = "check"
subject = "Check the links"
blocked_by = ["manual"]
[[task]]
id = "manual"
subject = "Write the manual"
owner = "ann"
checks = [{kind = "file", path = "manual.md"}, {kind = "command", run = "true", name = "builds"}]
"""


def read(tmp_path: Path, text: str) -> reading.TeamFile:
    path = tmp_path / "TEAM.toml"
    path.write_text(text, encoding="utf-8")
    return read_team_file(path)


def test_a_file_says_who_leads_who_works_and_what_is_to_do(tmp_path: Path) -> None:
    lead = '[[member]]\nname = "team-lead"\nmodel = "anthropic:some"\n'
    file = read(tmp_path, TEAM + "[budget]\nturns = 9\n" + MEMBERS + lead + TASKS)

    assert (file.team.name, file.team.goal, file.budget.turns) == ("docs", "Write the manual.", 9)
    assert file.lead is not None
    assert (file.lead.name, file.lead.model) == ("team-lead", "anthropic:some")
    assert [(each.name, each.driver) for each in file.members] == [
        ("team-lead", "native"),
        ("ann", "native"),
        ("bob", "codex"),
    ]


def test_without_a_lead_in_the_file_a_native_one_leads(tmp_path: Path) -> None:
    lead = read(tmp_path, TEAM + MEMBERS).lead
    assert lead is not None
    assert (lead.name, lead.driver, lead.model) == ("team-lead", "native", None)


def test_tasks_come_after_those_that_they_wait_for(tmp_path: Path) -> None:
    first, second = new_drafts(read(tmp_path, TEAM + MEMBERS + TASKS).items(), ())

    assert (first.subject, first.owner, list(first.blocked_by)) == ("Write the manual", "ann", [])
    assert [(check.name, check.kind) for check in first.checks] == [
        ("manual.md", "file"),
        ("builds", "command"),
    ]
    assert (second.subject, list(second.blocked_by)) == ("Check the links", ["@0"])


def test_paths_in_rules_are_relative_to_the_file(tmp_path: Path) -> None:
    member = '[[member]]\nname = "ann"\nplan_approver = "lead"\n'
    rules = '[member.rules]\nallow = ["Bash(git:*)"]\ndirectories = ["../other"]\n'
    (ann,) = read(tmp_path, TEAM + member + rules).teammates
    policy = ann.policy(tmp_path)

    assert policy is not None
    assert policy.directories == [str(tmp_path / "../other")]
    assert (policy.allow, policy.approver, policy.plan_approver) == (
        ["Bash(git:*)"],
        "human",
        "lead",
    )
    assert "approver" not in policy.stated_fields, "what is not said is left to settings"


def test_a_member_says_which_machines_may_run_it(tmp_path: Path) -> None:
    members = (
        '[[member]]\nname = "ann"\n'
        '[[member]]\nname = "bob"\non = "os=linux,gpu"\nrespawn = true\n'
        '[[member]]\nname = "cid"\non = "any"\n'
    )
    ann, bob, cid = read(tmp_path, TEAM + members).teammates

    assert (ann.labels, ann.respawn) == (None, False)
    assert (bob.labels, bob.respawn) == ({"os": "linux", "gpu": ""}, True)
    assert (cid.labels, cid.respawn) == ({}, False)


def test_of_several_members_alike_each_has_a_number(tmp_path: Path) -> None:
    member = '[[member]]\nname = "ann"\ncount = 2\nskills = ["docs"]\n'
    task = '[[task]]\nid = "a"\nsubject = "A"\nowner = "ann-2"\nneeds = ["docs"]\n'
    file = read(tmp_path, TEAM + member + task)
    assert [(each.name, each.skills) for each in file.teammates] == [
        ("ann-1", ["docs"]),
        ("ann-2", ["docs"]),
    ]


def test_without_a_goal_nobody_leads(tmp_path: Path) -> None:
    file = read(tmp_path, '[team]\nname = "docs"\n' + MEMBERS + TASKS)
    assert file.lead is None
    assert [each.name for each in file.members] == ["ann", "bob"]


def test_a_role_is_a_name_or_a_file_beside_the_team_file(tmp_path: Path) -> None:
    (tmp_path / "roles").mkdir()
    path = tmp_path / "roles" / "x.md"
    path.write_text("---\nname: x\n---\nBe brief.\n", encoding="utf-8")
    members = (
        '[[member]]\nname = "a"\nrole = "writer"\n[[member]]\nname = "b"\nrole = "roles/x.md"\n'
    )
    file = read(tmp_path, TEAM + members)
    assert [file.role(each) for each in file.teammates] == ["writer", str(path)]

    path.write_text("---\nname: x\npermissionMode: bypassPermissions\n---\n", encoding="utf-8")
    with pytest.raises(Invalid, match=r"TEAM\.toml:9: member 2 \(b\): role: .*permissionMode"):
        read(tmp_path, TEAM + members)


def test_a_task_of_the_file_is_known_by_its_id(tmp_path: Path) -> None:
    items = read(tmp_path, TEAM + MEMBERS + TASKS).items()
    assert [(item.source, item.after) for item in items] == [
        ("task:check", ("task:manual",)),
        ("task:manual", ()),
    ]


WRONG = [
    ('[team]\nname = "docs"\n', "team: goal: a team needs a goal, or tasks, or a backlog"),
    ("", "team: it is missing"),
    (TEAM + '[[membr]]\nname = "ann"\n', "there is no key 'membr' (did you mean 'member'?)"),
    (
        TEAM + MEMBERS + 'backnd = "x"\n',
        "member 2 (bob): there is no key 'backnd' (did you mean 'backend'?)",
    ),
    (
        TEAM + MEMBERS + "[member.rules]\nalow = []\n",
        "member 2 (bob): rules: there is no key 'alow' (did you mean 'allow'?)",
    ),
    (
        TEAM + MEMBERS + 'mode = "plann"\n',
        "member 2 (bob): mode: 'plann' is not one of 'default', 'acceptEdits', 'bypassPermissions'",
    ),
    (
        TEAM + '[[member]]\nname = "ann"\ndriver = "codx"\n',
        "member 1 (ann): driver: there is no driver 'codx' (did you mean 'codex'?)",
    ),
    (TEAM + MEMBERS + 'env = "HOME"\n', "member 2 (bob): env: Input should be a valid list"),
    (TEAM + '[[member]]\ndriver = "goose"\n', "member 1: name: it is missing"),
    (
        TEAM + MEMBERS + '[[member]]\nname = "ann"\n',
        "member 3 (ann): name: another member has this name",
    ),
    (TEAM + '[[member]]\nname = "a b"\n', "'a b' is not a valid name for a member"),
    (
        TEAM + '[[member]]\nname = "team-lead"\nprompt = "Lead."\n',
        "member 1 (team-lead): prompt: the lead's prompt is the goal",
    ),
    (TEAM + '[[member]]\nname = "ann"\ndriver = "acp"\n', "member 1 (ann): command: the driver"),
    (
        TEAM + '[[member]]\nname = "ann"\ndriver = "scripted"\n',
        "member 1 (ann): script: a scripted",
    ),
    (TEAM + MEMBERS + 'on = "a b"\n', "member 2 (bob): on: 'a b' is not a list of labels"),
    (TEAM + MEMBERS + 'on = ""\n', "member 2 (bob): on: '' is not a list of labels"),
    (
        TEAM + MEMBERS + "respawn = true\n",
        "member 2 (bob): respawn: it needs `on`, which says which machines",
    ),
    (
        TEAM + MEMBERS + 'on = "gpu"\nbackend = "in-process"\n',
        "member 2 (bob): on: an in-process agent",
    ),
    (TEAM + TASKS, "task 2 (manual): owner: there is no member 'ann' (available: team-lead)"),
    (
        TEAM + MEMBERS + TASKS.replace('["manual"]', '["manul"]'),
        "task 1 (check): blocked_by: there is no task 'manul' (did you mean 'manual'?)",
    ),
    (
        TEAM + MEMBERS + TASKS + 'blocked_by = ["check"]\n',
        "task 1 (check): blocked_by: these tasks depend on each other in a circle: 'check'",
    ),
    (
        TEAM + MEMBERS + TASKS.replace('kind = "file"', 'kind = "fil"'),
        "task 2 (manual): check 1: kind: 'fil' is not one of",
    ),
    (TEAM + MEMBERS + "[budget]\nusd = 0\n", "budget: usd: Input should be greater than 0"),
    (TEAM + "[budget\n", "this is not valid TOML"),
    (
        '[team]\nname = "docs"\n' + MEMBERS + TASKS.replace('"ann"', '"team-lead"'),
        "task 2 (manual): owner: there is no member 'team-lead'",
    ),
    (
        TEAM + MEMBERS + "[unattended]\nquiet = ['08:00-08:00']\n",
        "unattended: quiet: '08:00-08:00' is the whole day",
    ),
    (
        TEAM + MEMBERS + "[merge]\ngate = [{kind = 'command', rum = 'x'}]\n",
        "merge: gate 1: there is no key 'rum' (did you mean 'run'?)",
    ),
    (TEAM + MEMBERS + "[merge]\ngate = [3]\n", "merge: gate: Input should be a valid string"),
    (
        TEAM + MEMBERS + "[workspace]\nkind = 'worktre'\n",
        "workspace: kind: 'worktre' is not one of 'shared', 'worktree', 'clone'",
    ),
    (
        TEAM + MEMBERS + "[[backlog]]\nmarkdown = 'a'\n[[backlog]]\nmarkdown = 'a'\n",
        "backlog 2: another backlog has the same source",
    ),
    (
        TEAM + MEMBERS + "[[backlog]]\n",
        "backlog 1: it needs exactly one of markdown, directory, command",
    ),
    (
        TEAM + MEMBERS + "[[backlog]]\ncommand = 'a'\nheading = 'b'\n",
        "backlog 1: heading only works with markdown",
    ),
    (
        TEAM + MEMBERS + "[[notify]]\nrun = 'a'\non = ['mergd']\n",
        "notify 1: on: 'mergd' is not one of",
    ),
    (
        TEAM + MEMBERS + "[[notify]]\non = ['merged']\n",
        "notify 1: it needs exactly one of run, url, url_env, push",
    ),
    (
        TEAM + MEMBERS + "[[notify]]\nrun = 'a'\nurl = 'ntfy://a'\n",
        "notify 1: it needs exactly one of run, url, url_env, push",
    ),
    (
        TEAM + MEMBERS + "[[notify]]\nurl = 'ntfy'\n",
        "notify 1: url: it is not an address of apprise",
    ),
    (
        TEAM + MEMBERS + "[[notify]]\nurl_env = '$CHAT'\n",
        "notify 1: url_env: '$CHAT' is not the name of an environment variable",
    ),
    (
        TEAM + MEMBERS + "[[notify]]\npush = true\nquiet = 'night'\n",
        "notify 1: quiet: 'night' is not a time span",
    ),
    (
        TEAM + MEMBERS + "[[notify]]\npush = true\nquiet = '08:00-08:00'\n",
        "notify 1: quiet: '08:00-08:00' is the whole day",
    ),
    (
        TEAM + MEMBERS + "[[notify]]\nrun = 'a'\nquiet = '22:00-07:00'\n",
        "notify 1: quiet and answer_minutes do not work with run",
    ),
]


@each_row(("text", "why"), WRONG, ids=[why for _, why in WRONG])
def test_a_wrong_file_is_refused_with_the_place_of_the_mistake(
    tmp_path: Path, text: str, why: str
) -> None:
    with pytest.raises(Invalid) as refused:
        read(tmp_path, text)
    assert why in refused.value.message
    assert str(tmp_path / "TEAM.toml") in refused.value.message
    assert refused.value.remedy


def test_servers_are_kept_as_the_file_states_them(tmp_path: Path) -> None:
    hub = '[mcp_servers.hub]\ncommand = "hub"\nargs = ["-v"]\nenv = {HUB_KEY = "${HUB_KEY}"}\n'
    made = read(tmp_path, f'[team]\nname = "a"\ngoal = "Go."\n{hub}')
    assert made.mcp_servers == {
        "hub": {"command": "hub", "args": ["-v"], "env": {"HUB_KEY": "${HUB_KEY}"}}
    }
    for wrong in ('[mcp_servers.a__b]\ncommand = "x"\n', hub.replace("${HUB_KEY}", "bare-7")):
        with pytest.raises(Invalid, match="The MCP server"):
            read(tmp_path, f'[team]\nname = "a"\ngoal = "Go."\n{wrong}')


def test_commands_after_an_edit_and_the_search_are_those_of_the_file(tmp_path: Path) -> None:
    url = "https://search.example.org/?q={query}"
    start = '[team]\nname = "a"\ngoal = "Go."\n'
    made = read(
        tmp_path, f'{start}[web]\nsearch_url = "{url}"\n[after_edit]\n"*.py" = ["fmt {{file}}"]\n'
    )
    assert (made.web.search_url, made.after_edit) == (url, {"*.py": ["fmt {file}"]})
    with pytest.raises(Invalid, match=r"not a URL with \{query\}"):
        read(tmp_path, f'{start}[web]\nsearch_url = "https://x.org"\n')
    with pytest.raises(Invalid, match="after_edit"):
        read(tmp_path, f'{start}[after_edit]\n"*.py" = "fmt"\n')


def test_a_file_that_is_not_there_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        read_team_file(tmp_path / "TEAM.toml")
    with pytest.raises(Invalid, match="cannot be read"):
        read_team_file(tmp_path)


SECTIONS: dict[str, type[FileTable]] = {
    "`[team]`": tables.TeamTable,
    "`[budget]`": tables.BudgetTable,
    "`[workspace]`": tables.WorkspaceTable,
    "`[merge]`": tables.MergeTable,
    "`[forge]`": ForgeTable,
    "`[shape]`": tables.ShapeTable,
    "`[guarded]`": tables.GuardedTable,
    "`[unattended]`": tables.UnattendedTable,
    "`[retention]`": tables.RetentionTable,
    "`[[notify]]`": NotifyTable,
    "`[mcp_servers]`": tables.McpServerTable,
    "`[web]`": tables.WebTable,
    '`[models."NAME"]`': tables.ModelTable,
    "`[[member]]`": tables.MemberTable,
    "`[member.rules]`": tables.RulesTable,
    "`[[task]]`": tables.TaskTable,
    "`checks`": tables.CheckTable,
    "`[[backlog]]`": tables.BacklogTable,
}


def test_the_page_lists_every_table_and_every_key() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for heading, table in SECTIONS.items():
        title = re.escape(heading)
        found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
        assert found, heading
        listed = re.findall(r"^\| `([^`]+)`", found[1], re.MULTILINE)
        assert set(listed) == set(table.model_fields), heading
    missing = set(_all_tables(tables.File)) - set(SECTIONS.values())
    assert missing == {tables.TaskBudgetTable}, "a table that the page knows nothing of"


def _all_tables(model: type[FileTable]) -> Iterator[type[FileTable]]:
    for field in model.model_fields.values():
        for below in mistakes._tables_in(field.annotation):
            assert issubclass(below, FileTable)
            yield below
            yield from _all_tables(below)


def test_the_file_of_the_page_is_one(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    block = re.search(r"^```toml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert block
    assert len(read(tmp_path, block[1]).members) == 3


async def test_a_role_file_by_its_path_is_for_people_only(tmp_path: Path) -> None:
    path = tmp_path / "brief.md"
    path.write_text("---\nname: brief\n---\nBe brief.\n", encoding="utf-8")
    settings = settings_from({}, home=tmp_path / "home")
    async with App(settings, {"HOME": str(tmp_path)}, store=MemoryStore()) as app:

        async def made(parent: tuple[str, AgentFacts] | None) -> AgentSpec:
            return await app.resolve(
                SpawnRequest(
                    driver="scripted",
                    backend="in-process",
                    cwd=str(tmp_path),
                    role=str(path),
                    script="s.toml",
                ),
                parent=parent,
            )

        spec = await made(None)
        assert spec.instructions == "Be brief."
        with pytest.raises(NotFound, match="no agent definition"):
            await made(("ann", AgentFacts.new(spec=spec.raw, nonce="n", since_ms=1)))


TREES = '[workspace]\nkind = "worktree"\n[merge]\ntarget = "main"\n'
DIGEST = "b6d5c231c10877495747d89deaf51526f4b6d807ebcad8e4697668a0b318cf84"


def test_a_file_guards_more_paths_and_leaves_some_out(tmp_path: Path) -> None:
    said = '[guarded]\npaths = ["deploy"]\nallow = [".github/workflows"]\n'
    file = read(tmp_path, TEAM + MEMBERS + TREES + said)
    assert (file.guarded.paths, file.guarded.allow) == (["deploy"], [".github/workflows"])
    bare = read(tmp_path, TEAM + MEMBERS + TREES)
    assert team_records.digest_of(file) != team_records.digest_of(bare)
    settings = MergeSettings.new(repository=str(tmp_path), target="main")
    made = team_records.with_guarded(settings, file)
    assert (made.guarded, made.unguarded) == (["deploy", "TEAM.toml"], [".github/workflows"])
    elsewhere = MergeSettings.new(repository=str(tmp_path / "repository"), target="main")
    assert team_records.with_guarded(elsewhere, bare).guarded == []


def test_a_file_says_who_the_author_is(tmp_path: Path) -> None:
    bare = read(tmp_path, TEAM + MEMBERS + TREES)
    # A team that was made before there was such a setting is still of this file.
    assert team_records.digest_of(bare) == DIGEST
    file = read(tmp_path, TEAM + MEMBERS + TREES + 'author = "Robot <robot@example.org>"\n')
    assert file.merge is not None
    assert file.merge.author == "Robot <robot@example.org>"
    assert team_records.digest_of(file) != DIGEST
    for wrong in ("Robot", "Robot <robot>", "A <a@b> <c@d>"):
        with pytest.raises(Invalid, match=r"TEAM.toml:\d+: merge: author: .* is not an author"):
            read(tmp_path, TEAM + MEMBERS + TREES + f'author = "{wrong}"\n')


@pytest.mark.parametrize("path", [".claude", ".mcp.json", ".codex/**", ".gitmodules", "TEAM.toml"])
def test_what_bullpen_and_programs_obey_stays_guarded(tmp_path: Path, path: str) -> None:
    with pytest.raises(Invalid, match=r"TEAM.toml:\d+: guarded: .* is always guarded"):
        read(tmp_path, TEAM + MEMBERS + TREES + f'[guarded]\nallow = ["{path}"]\n')


def test_a_file_that_merges_nothing_guards_nothing(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="nothing is merged, so nothing is guarded"):
        read(tmp_path, TEAM + MEMBERS + '[guarded]\npaths = ["deploy"]\n')


def test_a_file_says_how_much_of_the_log_is_kept(tmp_path: Path) -> None:
    said = '[retention]\nkeep_days = 30.0\nexport = "old"\n'
    kept = team_records.retention_of(read(tmp_path, TEAM + MEMBERS + said))
    assert kept is not None
    assert kept.raw == {"keepDays": 30.0, "export": str(tmp_path / "old")}


@pytest.mark.parametrize("table", ["", '[retention]\nexport = "old"\n'])
def test_a_file_that_sets_no_limit_keeps_the_whole_log(tmp_path: Path, table: str) -> None:
    assert team_records.retention_of(read(tmp_path, TEAM + MEMBERS + table)) is None


FORGE = '[merge]\ntarget = "main"\n[workspace]\nkind = "worktree"\n[forge]\n'


def test_a_forge_is_an_address_and_what_to_take_from_it(tmp_path: Path) -> None:
    text = f'[team]\nname = "docs"\n{MEMBERS}{FORGE}url = "https://github.com/acme/shop"\n'
    file = read(tmp_path, f'{text}labels = ["agents"]\npoll_s = 30\n')
    assert file.forge is not None
    assert (file.forge.kind_or_guess, file.forge.labels) == ("github", ["agents"])
    other = read(tmp_path, text.replace("github.com", "git.example:3000"))
    assert other.forge is not None
    assert other.forge.kind_or_guess == "gitea"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ('url = "https://github.com/acme"', "an owner and a repository"),
        ('url = "https://me:hunter2@github.com/a/b"', "must not contain"),
        ('url = "git@github.com:a/b.git"', "must not contain"),
        ('url = "https://github.com/a/b"\napi = "file:///etc"', "must begin with https"),
        ('url = "https://github.com/a/b"\npoll_s = 0.5', "greater than or equal to 1"),
        ('url = "https://github.com/a/b"\ntoken_env = "A B"', "token_env"),
        ('labels = ["x"]', "url"),
    ],
)
def test_a_forge_that_cannot_be_used_is_told(tmp_path: Path, given: str, told: str) -> None:
    with pytest.raises(Invalid, match=told) as caught:
        read(tmp_path, f"{TEAM}{MEMBERS}{FORGE}{given}\n")
    assert "hunter2" not in str(caught.value)


def test_a_forge_needs_handed_in_work_and_a_token_that_no_member_gets(tmp_path: Path) -> None:
    url = 'url = "https://github.com/a/b"\n'
    with pytest.raises(Invalid, match=r"Add \[merge\]"):
        read(tmp_path, f"{TEAM}{MEMBERS}[forge]\n{url}")
    text = f'{TEAM}{MEMBERS}env = ["CI_TOKEN"]\n{FORGE}{url}token_env = "CI_TOKEN"\n'
    with pytest.raises(Invalid, match="it would get CI_TOKEN"):
        read(tmp_path, text)


def test_a_pull_request_for_a_night_needs_the_merge_queue(tmp_path: Path) -> None:
    text = f'{TEAM}{MEMBERS}{FORGE}url = "https://github.com/a/b"\npull_request = "night"\n'
    with pytest.raises(Invalid, match="only work that the merge queue merged"):
        read(tmp_path, text)
    settings = team_records.forge_settings(read(tmp_path, f'{text}merge = "queue"\n'))
    assert settings is not None
    assert (settings.merge, settings.pull_request) == ("queue", "night")
