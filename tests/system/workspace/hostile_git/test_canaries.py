"""No program that a repository's settings, attributes or hooks name runs in Bullpen's own git."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

import bullpen
from bullpen.errors import BullpenError
from bullpen.sandbox import git_box
from bullpen.workspace.git import run_git
from bullpen.workspace.git.program_settings import Setting
from bullpen.workspace.git.run_git import Git, git_that_reads
from support.git.canaries import Scene

LOST = "1" * 40
"""An object that is in no repository: git would fetch it from a promising remote."""

# Every command that Bullpen gives to git, with the words that matter.
CALLS: tuple[tuple[str, ...], ...] = (
    ("rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir"),
    ("rev-parse", "--show-superproject-working-tree"),
    ("rev-parse", "--verify", "--quiet", "HEAD^{commit}"),
    ("status", "--porcelain", "-z", "--no-renames"),
    ("--literal-pathspecs", "status", "--porcelain=v1", "-z", "--untracked-files=all", "--"),
    ("status", "--porcelain=v2", "-z", "--no-renames", "--untracked-files=no"),
    ("status",),
    ("diff", "--raw", "-z", "--no-renames", "--no-abbrev", "HEAD"),
    ("diff", "--cached", "--raw", "-z", "HEAD"),
    ("diff", "HEAD"),
    ("diff-files", "-z", "--name-only"),
    ("diff-files", "-p"),
    ("diff-index", "--cached", "--quiet", "--ignore-submodules=none", "HEAD"),
    ("diff-index", "-p", "HEAD"),
    ("diff-tree", "-r", "-z", "-p", "HEAD", "other"),
    ("log", "--max-count=5", "-p", "--format=%h %an: %s %G?"),
    ("ls-files", "-z", "--stage", "-v"),
    ("ls-files", "--others", "--directory", "-z"),
    ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--modified"),
    ("ls-tree", "-r", "-z", "--full-tree", "HEAD"),
    ("check-attr", "filter", "working-tree-encoding", "--", "a.txt"),
    ("check-ignore", "--quiet", "--", "a.txt"),
    ("cat-file", "-e", LOST),
    ("cat-file", "-p", "HEAD:a.txt"),
    ("cat-file", "-t", LOST),
    ("rev-list", "--objects", "--quiet", "HEAD"),
    ("rev-list", "--max-count=1", LOST),
    ("merge-base", "HEAD", "other"),
    ("merge-tree", "--write-tree", "-z", "--name-only", "HEAD", "other"),
    ("for-each-ref", "--format=%(refname)%00%(objectname)%00%(contents)%00"),
    ("branch", "--remotes", "--contains", "HEAD"),
    ("remote",),
    ("remote", "get-url", "origin"),
    ("worktree", "list", "--porcelain", "-z"),
    ("worktree", "add", "--quiet", "--no-checkout", "--detach", "--force", "../made", "HEAD"),
    ("config", "--get", "alias.st"),
    ("var", "GIT_COMMITTER_IDENT"),
    ("version",),
    ("symbolic-ref", "--quiet", "HEAD"),
    ("update-ref", "-m", "bullpen: test", "refs/bullpen/test/1", "HEAD"),
    ("hash-object", "-w", "-t", "commit", "--stdin"),
    ("mktree",),
    ("write-tree", "--missing-ok"),
    ("-c", "i18n.commitEncoding=utf-8", "commit-tree", "HEAD^{tree}"),
    ("submodule", "--quiet", "init"),
    ("ls-remote", "lazy"),
    ("ls-remote", "ssh"),
    ("ls-remote", "https://example.com/x"),
    ("ls-remote", "origin"),
    ("fetch", "--quiet", "--no-tags", "origin", "+refs/heads/*:refs/remotes/origin/*"),
    ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "lazy"),
    ("push", "--quiet", "--no-verify", "origin", "+HEAD:refs/bullpen/test/2"),
    ("add", "--all", "--sparse"),
    ("read-tree", "-m", "-u", "HEAD", "other"),
    ("commit", "--quiet", "--allow-empty", "--cleanup=whitespace", "-m", "work"),
    ("checkout-index", "--all", "--force", "--index", "--quiet"),
    ("merge", "--ff-only", "--quiet", "--no-stat", "other"),
    ("rebase", "--quit"),
    ("cherry-pick", "--quit"),
    ("revert", "--quit"),
    ("for-each-ref", "--format=%(refname)", "refs/bisect"),
    ("update-ref", "-d", "refs/bullpen/test/1"),
    ("reset", "--quiet"),
    ("reset", "--quiet", "--hard"),
    ("clean", "-ffdq"),
    ("checkout", "--quiet", "--force", "--detach", "--no-recurse-submodules", "other"),
    ("checkout", "--quiet", "--force", "--no-track", "-B", "bullpen/x/y", "HEAD"),
)


SINGING = (
    ("status",),
    ("diff", "HEAD"),
    ("cat-file", "-e", LOST),
    ("ls-remote", "origin"),
    ("ls-remote", "ssh"),
    ("merge-tree", "--write-tree", "HEAD", "other"),
    ("commit", "--quiet", "--allow-empty", "-m", "work"),
    ("commit-tree", "-S", "-m", "work", "HEAD^{tree}"),
    ("checkout", "--quiet", "--force", "--detach", "other"),
)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene.make(tmp_path / "scene")


@pytest.fixture
def without_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings alone must hold: in the sandbox a canary could sing unheard."""
    monkeypatch.setattr(git_box, "_program", lambda path: None)


def play(where: Path, calls: Sequence[tuple[str, ...]]) -> None:
    for words in calls:
        try:
            Git(where).run(*words, seconds=20.0)
        except BullpenError:
            # Some are refused here; what counts is what they run.
            continue


@pytest.mark.parametrize("form", ["plain", "linked", "bare", "nested", "submodule"])
@pytest.mark.usefixtures("without_sandbox")
def test_no_call_runs_a_program_that_the_repository_names(scene: Scene, form: str) -> None:
    played = []
    for words in CALLS:
        play(scene.places[form], [words])
        if scene.canaries.sung:
            played.append((words, scene.canaries.sung))
            scene.canaries.forget()
    assert played == []


def test_the_canaries_do_sing(scene: Scene) -> None:
    """Plain git runs what the settings name: the scene is no dummy."""
    for words in SINGING:
        subprocess.run(
            ["git", *words],
            cwd=scene.project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
    wanted = {
        "core-fsmonitor", "core-sshCommand", "diff-evil-command", "filter-evil-clean",
        "filter-evil-smudge", "filter-daemon-process", "gpg-openpgp-program", "merge-evil-driver",
        "remote-lazy-url", "remote-lazyfile-uploadpack", "post-checkout", "post-index-change",
        "reference-transaction", "prepare-commit-msg",
    }  # fmt: skip
    assert wanted - set(scene.canaries.sung) == set()


def test_what_only_looks_finds_nothing_to_write_in_the_sandbox(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a setting was forgotten, its program still runs where it can do nothing."""
    if git_box._program("") is None:
        pytest.skip("there is no sandbox here")

    def forgotten(found: Sequence[Setting], *, stores: bool) -> list[tuple[str, str]]:
        return []

    monkeypatch.setattr(run_git, "overrides", forgotten)
    monkeypatch.setattr(run_git, "ALWAYS", ("safe.bareRepository=all",))
    monkeypatch.setattr(run_git, "_OPTIONS", {})
    looks = [words for words in CALLS if words[0] in ("status", "diff", "diff-files", "ls-files")]
    for where in scene.places.values():
        play(where, looks)
    assert scene.canaries.sung == []
    monkeypatch.setattr(git_box, "_program", lambda path: None)
    play(scene.project, looks)
    assert "filter-evil-clean" in scene.canaries.sung


def test_git_that_another_process_runs_runs_nothing_else(scene: Scene) -> None:
    for where in scene.places.values():
        for words in (
            ("ls-files", "-z", "--cached", "--others", "--exclude-standard"),
            ("rev-list", "--max-count=1", "--timestamp", "HEAD"),
            ("cat-file", "-e", LOST),
            ("for-each-ref", "--count=1", "--contains=HEAD", "refs/heads", "refs/remotes"),
        ):
            argv = [*git_that_reads(), *words]
            subprocess.run(
                argv, cwd=where, stdin=subprocess.DEVNULL, capture_output=True, check=False
            )
    assert scene.canaries.sung == []


ELSEWHERE = {
    # Reads the user's settings only: no repository is asked.
    "sandbox/inner_environment.py": ["shutil.which('git', path=path)"],
    # Looks whether there is a git; what runs is `git_that_reads`.
    "agents/tools/files/search_worker.py": ["shutil.which('git')"],
    # Is shown to a person.
    "workspace/handover/hand_in.py": [
        "['git', '-C', where, 'diff', f'{base}..{head}', '--', *paths]"
    ],
    "runs/review/of_task.py": [
        "['git', '-C', str(span.repository), 'diff', span.base, span.commit]"
    ],
    # Makes a new repository in an empty folder.
    "testing/gates/tool_trial.py": ["['git', 'init', '-q', str(self.project)]"],
    # The stand-in for a forge: its own bare repository, and a clone of a person in a test.
    "testing/forge/checkout.py": ["['git', *words]"],
    "testing/forge/github/bare_repository.py": ["['git', 'http-backend']", "['git', *words]"],
    # Words, no commands: a program that reads, and kinds of guarded paths.
    "agents/drivers/unsupported.py": ["('git',)"],
    "workspace/handover/reviewed_work.py": [
        "('git', 'settings', 'program', 'editor', 'hooks', 'startup')"
    ],
    "protocol/guarded_paths.py": [
        "('git', 'settings', 'program', 'editor', 'hooks', 'ci', 'team', 'startup', 'added')",
        "['git', 'settings', 'program', 'team']",
    ],
}
"""Where else the program is named, and what is done with it."""


def test_all_of_bullpen_calls_git_in_one_place() -> None:
    root = Path(bullpen.__file__).parent
    found: dict[str, list[str]] = {}
    for file in sorted(root.rglob("*.py")):
        name = str(file.relative_to(root))
        # The permissions only read the command lines of agents.
        if name != "workspace/git/run_git.py" and not name.startswith("agents/permissions/"):
            text = file.read_text("utf-8")
            for node in ast.walk(ast.parse(text)) if 'git"' in text else ():
                if _names_git(node):
                    found.setdefault(name, []).append(ast.unparse(node))
    assert found == ELSEWHERE


def _names_git(node: ast.AST) -> bool:
    """Whether this is a command line of git, or looks for the program."""
    first: ast.expr | None = None
    if isinstance(node, ast.List | ast.Tuple) and node.elts:
        first = node.elts[0]
    elif isinstance(node, ast.Call) and node.args and ast.unparse(node.func).endswith("which"):
        first = node.args[0]
    if not isinstance(first, ast.Constant) or not isinstance(first.value, str):
        return False
    return first.value.rpartition("/")[2].partition(" ")[0] == "git"
