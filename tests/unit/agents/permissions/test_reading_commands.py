"""Commands that only read in the project need no rule and no answer."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from bullpen.agents.contracts.call import Call, CommandEnvironment, Rights
from bullpen.agents.permissions.decide import decide
from bullpen.agents.permissions.reading.quiet_repository import is_quiet
from bullpen.agents.permissions.reading.reading_table import BUILTINS, READING
from bullpen.protocol.policy import Mode
from support.hostile.commands import COMMANDS, aimed, lay_out

PLAIN = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with every program of the table, outside of the project."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in {each.split()[0].rstrip("+") for each in READING} - BUILTINS:
        (folder / name).write_text("#!/bin/sh\n", "utf-8")
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made, outside = tmp_path / "project", tmp_path / "outside"
    (made / "src").mkdir(parents=True)
    outside.mkdir()
    (tmp_path / "home").mkdir()
    (outside / "secret").write_text("x\n", "utf-8")
    for name in ("a.txt", "b.txt", "src/a.py"):
        (made / name).write_text("x\n", "utf-8")
    (made / "out").symlink_to(outside)
    (made / "leak").symlink_to(outside / "secret")
    git(made)
    return made


def git(folder: Path, settings: str = PLAIN) -> Path:
    """A repository that git takes for one."""
    made = folder / ".git"
    for each in ("objects", "refs", "hooks"):
        (made / each).mkdir(parents=True, exist_ok=True)
    (made / "HEAD").write_text("ref: refs/heads/main\n", "utf-8")
    (made / "config").write_text(settings, "utf-8")
    (made / "index").write_bytes(b"DIRC\0\0\0\2\0\0\0\0" + bytes(20))
    return made


@pytest.fixture
def rights(project: Path, programs: Path) -> Rights:
    environment = CommandEnvironment(str(programs), frozenset(["PATH", "HOME"]))
    home = str(project.parent / "home")
    return Rights("default", str(project), home, commands=environment)


def effect(line: str, rights: Rights, **given: object) -> str:
    return decide(Call("Bash", {"command": line, **given}, "run"), rights).effect


READS = [
    "ls", "ls -la src", "ls *.txt", "cat a.txt", "cat src/*.py", "head -20 a.txt",
    "tail -n 5 a.txt", "wc -l a.txt b.txt", "wc -l < a.txt", "sed -n '1,20p' a.txt",
    "sed -n 5p a.txt", "sort a.txt | uniq -c", "rg foo", "rg -n '@dataclass' src", "rg --files",
    "grep -rn foo .", "grep -rn '/api/v1' src", "grep -e foo a.txt", "grep foo a.txt | head -3",
    "find . -name '*.py'", "find src -type f | wc -l", "git status", "git status --short",
    "git diff", "git diff HEAD~1 -- src", "git log --oneline -5",
    "git --no-pager log -p -- a.txt", "git show HEAD:a.txt", "git branch",
    "git branch --show-current", "git branch --list 'x*'", "git rev-parse HEAD", "git ls-files",
    "git blame a.txt", "git tag", "git stash list", "cd src && ls", "cd src && git status",
    "cd ./src; cat a.py", "ls 2>/dev/null", "ls 2>&1 | head", "(ls; pwd)", "echo hi",
    "echo '--- done'", "pwd && ls", "which python3", "du -sh .", "command -v python3",
    "diff a.txt b.txt", "git status && git diff --stat | tail -3",
]  # fmt: skip


@pytest.mark.parametrize("mode", ["default", "acceptEdits", "plan", "delegate", "dontAsk"])
def test_what_only_reads_is_allowed_in_every_mode(rights: Rights, mode: Mode) -> None:
    """R-4.1: the usual commands of an agent that looks around."""
    given = replace(rights, mode=mode)
    assert [line for line in READS if effect(line, given) != "allow"] == []


ASKS = [
    "cat leak", "cat *", "cat out/secret", "cat out/*", "cat ../outside/secret",
    "cat /etc/passwd", "cat ~/x", "cat $HOME/x", "cat a.txt > c", "cat a.txt >> a.txt",
    "cat < leak", "cat <<E\n$HOME\nE", "cat $(ls)", "cat {a,b}.txt", "cat [ab].txt",
    "cat a::../../../outside/secret", "X=1 ls", "./ls", "/bin/ls", "ls -L out", "ls out",
    "cd out && ls", "cd .. && ls", "cd src && cat ../../outside/secret", "cd src && cd .. && ls",
    "tail -f a.txt", "grep -e x leak", "grep -f leak a.txt", "grep -R x .", "grep x leak",
    "rg -L x", "rg --pre ./evil x", "rg x leak", "rg --files out", "rg -f leak", "find . -delete",
    "find . -exec cat {} ';'", "find . -fprint c", "find -L .", "find out", "find . -newer leak",
    "sort -o c a.txt", "sort --compress-program=./evil a.txt", "uniq a.txt c",
    "wc --files0-from=a.txt", "diff -r src out", "diff src src", "sed -i s/a/b/ a.txt",
    "sed -n 'w c' a.txt", "sed -n '1e ./evil' a.txt", "date -s x", "printf -v PATH x",
    "git branch x", "git branch -D x", "git tag v1", "git stash", "git stash pop",
    "git reflog expire --all", "git log --output=c", "git diff --ext-diff",
    "git diff --no-index a.txt leak", "git diff /etc/passwd a.txt", "git log -p --textconv",
    "git log --format=%G?", "git log --show-signature", "git log -p --submodule=diff",
    "git -C src status", "git -c core.fsmonitor=./evil status", "git grep -Oevil x",
    "git grep -pOevil x", "git config -l", "git blame --contents leak a.txt", "git fetch",
    "git add .", "git commit -m x", "git remote add x y", "for f in *; do cat $f; done",
    "ls | xargs cat", "ls | sh", "ls; rm a.txt", "ls && ./evil", "ls | tee c", "python3 -c 1",
    "make", "pytest", "awk 1 a.txt", "cat a.txt | git apply", "alias ls=./evil; ls",
    "ls & ./evil",
]  # fmt: skip


def test_what_writes_runs_or_leads_out_is_asked_about(rights: Rights) -> None:
    """R-4.1: nothing in doubt is in the set."""
    assert [line for line in ASKS if effect(line, rights) != "ask"] == []


def test_no_hostile_command_is_allowed_by_default(tmp_path: Path, programs: Path) -> None:
    """R-4.1: each of these lines writes, runs another program or reads a secret."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("x\n", "utf-8")
    lay_out(tmp_path / "project", outside / "canary")
    git(tmp_path / "project")
    path = f"{programs}:/usr/bin:/bin"
    given = Rights("default", str(tmp_path / "project"), str(tmp_path / "home"),
                   commands=CommandEnvironment(path))  # fmt: skip
    lines = [aimed(each, canary=outside / "canary", secret=outside / "secret") for each in COMMANDS]
    allowed = [line for line in lines if effect(line, given) == "allow"]
    assert len(lines) >= 1_400
    assert allowed == []


def test_without_a_known_environment_commands_are_asked_about(rights: Rights) -> None:
    """Another vendor's program runs its commands in a shell of its own, perhaps elsewhere."""
    assert effect("ls", replace(rights, commands=None)) == "ask"


@pytest.mark.parametrize(
    "name", ["BASH_ENV", "BASH_FUNC_ls%%", "CDPATH", "LD_PRELOAD", "RIPGREP_CONFIG_PATH"]
)
def test_a_variable_that_changes_what_runs_is_asked_about(rights: Rights, name: str) -> None:
    """The environment can make a harmless name something else."""
    assert rights.commands is not None
    led = replace(rights.commands, variables=frozenset(["PATH", name]))
    assert effect("ls", replace(rights, commands=led)) == "ask"


@pytest.mark.parametrize("name", ["GIT_DIR", "GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_CONFIG_COUNT"])
def test_a_variable_of_git_is_asked_about(rights: Rights, name: str) -> None:
    """Only those that name the author are harmless."""
    assert rights.commands is not None
    led = replace(rights.commands, variables=frozenset(["GIT_AUTHOR_NAME", name]))
    assert effect("git status", replace(rights, commands=led)) == "ask"
    assert effect("ls", replace(rights, commands=led)) == "allow"


def test_a_program_of_the_project_is_not_that_of_the_system(
    rights: Rights, project: Path, programs: Path
) -> None:
    """An agent can write a file called `ls` into a folder of PATH that is in the project."""
    bin_folder = project / ".venv" / "bin"
    bin_folder.mkdir(parents=True)
    given = replace(rights, commands=CommandEnvironment(f"{bin_folder}:{programs}"))
    assert effect("ls", given) == "allow"
    (bin_folder / "ls").write_text("#!/bin/sh\n", "utf-8")
    assert effect("ls", given) == "ask"
    assert effect("ls", replace(rights, commands=CommandEnvironment(f".:{programs}"))) == "ask"
    (programs / "wc").unlink()
    (programs / "wc").symlink_to(project / "a.txt")
    assert effect("wc a.txt", rights) == "ask"


def test_a_program_that_a_version_manager_or_another_checkout_chooses_is_asked_about(
    rights: Rights, tmp_path: Path
) -> None:
    """A file of a project says what such a program is."""
    for folder in (tmp_path / "shims", tmp_path / "checkout" / "bin"):
        folder.mkdir(parents=True)
        (folder / "rg").write_text("#!/bin/sh\n", "utf-8")
        (folder / "rg").chmod(0o755)
        given = replace(rights, commands=CommandEnvironment(str(folder)))
        (tmp_path / "checkout" / ".git").mkdir(exist_ok=True, parents=True)
        assert effect("rg x", given) == "ask"


@pytest.mark.parametrize(
    "settings",
    [
        "[core]\n\tfsmonitor = ./evil\n",
        "[core] fsmonitor = ./evil\n",
        "[CORE]\n\tFsMonitor = ./evil\n",
        "[core]\n\tfilemode = true\\\n[diff]\n",
        "[core]\n\tpager = ./evil\n",
        "[core]\n\thooksPath = hooks\n",
        "[diff]\n\texternal = ./evil\n",
        '[diff "x"]\n\ttextconv = ./evil\n',
        '[filter "x"]\n\tclean = ./evil\n',
        "[include]\n\tpath = ../evil\n",
        '[includeIf "gitdir:."]\n\tpath = ../evil\n',
        "[alias]\n\tstatus = !./evil\n",
        "[gpg]\n\tprogram = ./evil\n",
        "[log]\n\tshowSignature = true\n",
        "[status]\n\tsubmoduleSummary = true\n",
        '[remote "origin"]\n\tpromisor = true\n',
        "[extensions]\n\tpartialClone = origin\n",
        "\ufeff[core]\n\tfsmonitor = ./evil\n",
        "[user]\n\tname = a\r[core]\r\tfsmonitor = x\n",
        'nonsense "\n',
    ],
)
def test_git_asks_where_a_repository_could_name_a_program(
    rights: Rights, project: Path, settings: str
) -> None:
    """R-4.1: what an agent can write, nothing outside of its sandbox obeys."""
    git(project, PLAIN + settings)
    assert {effect(each, rights) for each in ("git status", "git diff", "git log")} == {"ask"}


def test_git_asks_where_a_hook_or_a_submodule_would_run(rights: Rights, project: Path) -> None:
    """Git starts itself in submodules, with their settings, and a hook when it writes the index."""
    made = git(project)
    entry = bytes(24) + b"\0\0\xe0\0" + bytes(34) + b"nested\0\0"
    (made / "index").write_bytes(b"DIRC\0\0\0\2\0\0\0\1" + entry + bytes(20))
    assert effect("git status", rights) == "ask"
    assert effect("git diff", rights) == "ask"
    assert effect("git diff --ignore-submodules", rights) == "allow"
    assert effect("git diff --ignore-submodules --ignore-submodules=none", rights) == "ask"
    assert effect("git log", rights) == "allow"
    git(project)
    (made / "sharedindex.0").write_bytes(b"")
    assert effect("git status", rights) == "ask"
    (made / "sharedindex.0").unlink()
    assert effect("git status", rights) == "allow"
    (made / "hooks" / "post-index-change").write_text("#!/bin/sh\n", "utf-8")
    assert effect("git status", rights) == "ask"


def test_git_asks_in_a_nested_repository_even_behind_one_that_is_not_complete(
    rights: Rights, project: Path
) -> None:
    """Git passes over a folder `.git` that is no repository, and takes the next one above."""
    nested = project / "src"
    git(nested, PLAIN + "[core]\n\tfsmonitor = ./evil\n")
    deep = nested / "deep"
    (deep / ".git").mkdir(parents=True)
    (deep / ".git" / "config").write_text(PLAIN, "utf-8")
    assert effect("git status", rights) == "allow"
    assert effect("cd src && git status", rights) == "ask"
    assert effect("cd src/deep && git status", rights) == "ask"
    assert effect("cd src && ls", rights) == "allow"


def test_a_linked_worktree_is_judged_by_the_settings_of_its_repository(tmp_path: Path) -> None:
    """Members work in such worktrees."""
    made = git(tmp_path / "repository")
    own = made / "worktrees" / "w"
    own.mkdir(parents=True)
    (own / "commondir").write_text("../..\n", "utf-8")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / ".git").write_text(f"gitdir: {own}\n", "utf-8")
    assert is_quiet(str(tree), submodules=True)
    (own / "config.worktree").write_text("[core]\n\tfsmonitor = x\n", "utf-8")
    assert not is_quiet(str(tree), submodules=True)
    (own / "config.worktree").unlink()
    git(tmp_path / "repository", PLAIN + "[core]\n\tfsmonitor = x\n")
    assert not is_quiet(str(tree), submodules=False)


def test_files_that_may_not_be_read_are_not_shown(rights: Rights, project: Path) -> None:
    """R-4.1: a search or the history could show what a Read rule denies."""
    (project / ".env").write_text("x\n", "utf-8")
    for given in (replace(rights, deny=("Read(.env)",)), replace(rights, ask=("Read(.env)",))):
        assert effect("cat a.txt", given) == "allow"
        assert effect("git log --oneline -5", given) == "allow"
        assert effect("git status", given) == "allow"
        for line in ("rg x", "grep -r x .", "git diff", "git show", "git log -p", "git grep x",
                     "diff a.txt b.txt"):  # fmt: skip
            assert effect(line, given) == "ask", line
        assert effect("cat .env", given) != "allow"
        assert effect("cat .e*", given) != "allow"
    elsewhere = replace(rights, deny=("Read(//somewhere/else/**)",))
    assert effect("rg x", elsewhere) == "allow"


def test_rules_come_before_the_set(rights: Rights) -> None:
    """A person can take a command out of it."""
    assert effect("git log", replace(rights, ask=("Bash(git log:*)",))) == "ask"
    assert effect("git log", replace(rights, deny=("Bash(git:*)",))) == "deny"
    assert effect("ls", replace(rights, tools=("Read", "Bash(git log:*)"))) == "deny"


def test_what_reads_its_input_may_stand_behind_a_command_that_a_rule_allows(rights: Rights) -> None:
    """`pytest | tail` is what agents type. A file could be another one by the time it is read."""
    given = replace(rights, allow=("Bash(pytest:*)",))
    assert effect("pytest -q 2>&1 | tail -20", given) == "allow"
    assert effect("pytest -q | grep -c passed; echo done", given) == "allow"
    assert effect("pytest -q; cat a.txt", given) == "ask"
    assert effect("pytest -q | grep -r x", given) == "ask"
    assert effect("pytest -q; git status", given) == "ask"
    assert effect("pytest -q | tail > c", given) == "ask"


def test_a_call_with_other_fields_is_asked_about(rights: Rights) -> None:
    """A field that is not known may change where or how a command runs."""
    assert effect("ls", rights, timeout=5, description="x") == "allow"
    assert effect("ls", rights, dangerouslyDisableSandbox=True) == "ask"


def test_the_page_names_every_command_of_the_set() -> None:
    """What is allowed without an answer is documented."""
    page = (Path(__file__).parents[4] / "docs" / "reference" / "policy.md").read_text("utf-8")
    section = page.partition("### Commands that only read\n")[2].partition("\n## ")[0]
    names = {name.rstrip("+").removeprefix("git ") for name in READING} - {"git"}
    unnamed = {name for name in names if not re.search(rf"`(?:git )?{name}[` ]", section)}
    assert unnamed == {"reflog show"}
