"""Guarded paths: which files of a project other programs run or obey."""

from __future__ import annotations

import pytest

from bullpen.protocol.guarded_paths import OBEYED, WHY, guarded, guarded_names
from support.rows import each_row

GUARDED = """
git .git/hooks/pre-commit
git .GIT/config
git sub/.git/config
git .gitmodules
git sub/.gitattributes
git .gitconfig
git .config/git/config
git .hg/hgrc
git .jj/repo/config.toml
git .svn/hooks/x
settings .claude/settings.json
settings .Claude/settings.local.json
settings .claude
settings .claude/agents/x.md
settings sub/deep/.claude/hooks/x.sh
settings .bullpen/settings.toml
settings .BULLPEN/agents/a.md
settings ./.claude/x
settings a/../.claude/x
settings .claude./settings.json
settings .claude /settings.json
program .mcp.json
program sub/.mcp.json
program .codex/rules/default.rules
program .codex/config.toml
program .gemini/settings.json
program .qwen/settings.json
program .opencode/plugin/x.js
program opencode.json
program OpenCode.JSONC
program .goose/config.yaml
program .goose-recipes/x.yaml
program .config/goose/config.yaml
program .cursor/mcp.json
program .vibe/config.toml
program .github/copilot-instructions.md
program .github/copilot/mcp.json
program .clinerules/x.md
program .factory/settings.json
program .kimi/config.toml
editor .vscode/tasks.json
editor .vscode/settings.json
editor .idea/workspace.xml
editor .idea/runConfigurations/x.xml
editor .run/x.run.xml
editor .zed/tasks.json
editor .devcontainer/devcontainer.json
editor .devcontainer.json
editor .exrc
editor .nvim.lua
editor .dir-locals.el
hooks .husky/pre-commit
hooks packages/a/.husky/pre-push
hooks .githooks/pre-commit
hooks .pre-commit-config.yaml
hooks lefthook.yml
hooks .lefthook-local.toml
hooks lefthook.jsonc
ci .github/workflows/ci.yml
ci .GitHub/Workflows/ci.yml
ci .github/actions/setup/action.yml
ci .gitlab-ci.yml
ci .gitlab/ci/build.yml
ci .forgejo/workflows/x.yml
ci .gitea/workflows/x.yml
ci .circleci/config.yml
ci .buildkite/pipeline.yml
ci Jenkinsfile
ci azure-pipelines.yml
ci bitbucket-pipelines.yml
ci .travis.yml
ci cloudbuild.yaml
team TEAM.toml
team nights/team.toml
team crew.team.toml
startup .envrc
startup .direnv/lib.sh
startup .bashrc
startup .zshenv
startup .zsh/.zshenv
startup .config/fish/conf.d/x.fish
startup config.fish
startup mise.toml
startup .mise.toml
startup mise.local.toml
startup .gdbinit
startup .tmux.conf
""".strip().splitlines()

FREE = """
README.md CLAUDE.md AGENTS.md GEMINI.md sub/CLAUDE.md .cursorrules .goosehints Makefile
package.json conftest.py pyproject.toml src/app.py .gitignore .npmrc .cargo/config.toml
.tool-versions .editorconfig claude/settings.json docs/workflows/ci.yml .github/CODEOWNERS
.github/dependabot.yml settings.json .gitkeep .claudeignore git/hooks/x mcp.json team.md
teams.toml .config/app.toml
""".split()  # noqa: SIM905 - one name a line would fill the page


@each_row("row", GUARDED)
def test_what_other_programs_obey_is_guarded(row: str) -> None:
    kind, _, path = row.partition(" ")
    assert guarded(path) == kind
    assert guarded(f"deep/er/{path}") == kind


@each_row("path", FREE)
def test_ordinary_files_are_free(path: str) -> None:
    assert guarded(path) is None


@pytest.mark.parametrize(
    "path",
    [
        ".cl\u200caude/settings.json",
        ".clau\u00adde/settings.json",
        ".\u212aimi/x",
        ".bullpen\u200b/settings.toml",
        ".clau\ufeffde/x",
        ".claude\u2060/x",
    ],
)
def test_what_a_file_system_takes_for_the_same_name_is_guarded(path: str) -> None:
    assert guarded(path) is not None


def test_a_path_that_is_no_text_is_compared_all_the_same() -> None:
    assert guarded(".claude/\udcff.json") == "settings"
    assert guarded("\udcff/plain") is None
    assert guarded("") is None


@each_row(
    ("path", "patterns", "kind"),
    [
        ("deploy/x.sh", ["deploy"], "added"),
        ("Deploy/a/b", ["deploy"], "added"),
        ("deploy", ["deploy/"], "added"),
        ("deployer/x", ["deploy"], None),
        ("a/deploy/x", ["deploy"], None),
        ("a/deploy/x", ["**/deploy"], "added"),
        ("infra/a/b/main.tf", ["infra/**/*.tf"], "added"),
        ("infra/main.tf", ["infra/**/*.tf"], "added"),
        ("infra/a/b/main.py", ["infra/**/*.tf"], None),
        ("x.key", ["*.key"], "added"),
        ("a/x.key", ["*.key"], None),
    ],
)
def test_a_team_guards_more(path: str, patterns: list[str], kind: str | None) -> None:
    assert guarded(path, patterns) == kind


def test_a_team_may_leave_some_unguarded_but_never_what_bullpen_or_a_program_obeys() -> None:
    workflow = ".github/workflows/ci.yml"
    assert guarded(workflow, allow=[".github/workflows"]) is None
    assert guarded(workflow, allow=["**"]) is None
    assert guarded(workflow, allow=[".github/actions"]) == "ci"
    for path in (".claude/settings.json", ".mcp.json", ".gitmodules", "TEAM.toml", ".codex/x"):
        assert guarded(path, allow=["**", path]) in OBEYED


def test_every_kind_says_why_and_has_names() -> None:
    for kind in WHY:
        assert kind == "added" or guarded_names(kind)
    assert guarded_names() >= {".git", ".claude", ".bullpen", ".envrc", ".github/workflows"}
