"""Canaries: repositories in which every setting, attribute and hook names a program of its own.

Each program leaves a file with its name where it is watched for, so that a test says which one ran.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .repositories import add_submodule, commit, git, make_repository

# Every setting that names a program in git 2.39 to 2.51, by `git help --config` and the manual, and
# those of git-lfs. A value has the program of this key for {0}.
PROGRAMS = {
    "core.fsmonitor": "{0}",
    "core.pager": "{0}",
    "core.editor": "{0}",
    "core.sshCommand": "{0}",
    "core.askPass": "{0}",
    "core.gitProxy": "{0}",
    "core.alternateRefsCommand": "{0}",
    "core.virtualFilesystem": "{0}",
    "sequence.editor": "{0}",
    "gpg.program": "{0}",
    "gpg.openpgp.program": "{0}",
    "gpg.x509.program": "{0}",
    "gpg.ssh.program": "{0}",
    "gpg.ssh.defaultKeyCommand": "{0}",
    "credential.helper": "!{0}",
    "credential.https://example.com.helper": "!{0}",
    "diff.external": "{0}",
    "diff.evil.command": "{0}",
    "diff.evil.textconv": "{0}",
    "merge.evil.driver": "{0} %O %A %B",
    "merge.tool": "evil",
    "filter.evil.clean": "{0}",
    "filter.evil.smudge": "{0}",
    "filter.daemon.process": "{0}",
    "remote.origin.uploadpack": "{0}",
    "remote.origin.receivepack": "{0}",
    "remote.lazy.url": "ext::{0}",
    "remote.lazyfile.uploadpack": "{0}",
    "remote.ssh.url": "ssh://nobody@localhost/x",
    "url.ext::{0} .insteadOf": "https://example.com/",
    "submodule.sub.update": "!{0}",
    "trailer.evil.command": "{0}",
    "trailer.evil.cmd": "{0}",
    "uploadpack.packObjectsHook": "{0}",
    "hook.evil.command": "{0}",
    "interactive.diffFilter": "{0}",
    "tar.evil.command": "{0}",
    "difftool.evil.cmd": "{0}",
    "mergetool.evil.cmd": "{0}",
    "browser.evil.cmd": "{0}",
    "man.evil.cmd": "{0}",
    "guitool.evil.cmd": "{0}",
    "sendemail.toCmd": "{0}",
    "sendemail.ccCmd": "{0}",
    "instaweb.httpd": "{0}",
    "imap.tunnel": "{0}",
    "alias.status": "!{0}",
    "alias.st": "!{0}",
    "pager.status": "{0}",
    "pager.config": "{0}",
    "lfs.extension.evil.clean": "{0}",
    "lfs.extension.evil.smudge": "{0}",
    "lfs.customtransfer.evil.path": "{0}",
}

# What makes git use them.
SWITCHES = {
    "commit.gpgSign": "true",
    "tag.gpgSign": "true",
    "log.showSignature": "true",
    "merge.default": "evil",
    "filter.evil.required": "true",
    "diff.evil.cachetextconv": "false",
    "diff.ignoreSubmodules": "none",
    "diff.submodule": "diff",
    "status.submoduleSummary": "true",
    "submodule.recurse": "true",
    "submodule.sub.ignore": "none",
    "submodule.nested.ignore": "none",
    "fetch.recurseSubmodules": "true",
    "push.recurseSubmodules": "on-demand",
    "remote.lazy.promisor": "true",
    "remote.lazy.partialclonefilter": "blob:none",
    "remote.lazyfile.url": "/",
    "remote.lazyfile.promisor": "true",
    "protocol.ext.allow": "always",
    "protocol.allow": "always",
    "hook.evil.event": "post-checkout",
    "trailer.evil.ifmissing": "add",
    "lfs.standalonetransferagent": "evil",
}

HOOKS = (
    "applypatch-msg", "commit-msg", "fsmonitor-watchman", "post-applypatch", "post-checkout",
    "post-commit", "post-index-change", "post-merge", "post-receive", "post-rewrite", "post-update",
    "pre-applypatch", "pre-auto-gc", "pre-commit", "pre-merge-commit", "pre-push", "pre-rebase",
    "pre-receive", "prepare-commit-msg", "proc-receive", "push-to-checkout",
    "reference-transaction", "sendemail-validate", "update",
)  # fmt: skip

DRIVERS = "* diff=evil merge=evil\n"
FILTERS = "* filter=evil diff=evil merge=evil\nd.txt filter=daemon\n"


@dataclass(frozen=True)
class Canaries:
    """Where the programs are, and where each leaves its name."""

    folder: Path

    @property
    def sung(self) -> list[str]:
        """The programs that ran."""
        return sorted(os.listdir(self.folder / "sung"))

    def forget(self) -> None:
        for each in (self.folder / "sung").iterdir():
            each.unlink()

    @classmethod
    def make(cls, folder: Path) -> Canaries:
        """Programs for all settings and hooks. Each passes on what it is given."""
        (folder / "sung").mkdir(parents=True)
        (folder / "programs").mkdir()
        (folder / "hooks").mkdir()
        made = cls(folder)
        for key in (*PROGRAMS, *HOOKS):
            place = folder / "hooks" / key if key in HOOKS else made.program(key)
            mark = folder / "sung" / place.name
            place.write_text(f"#!/bin/sh\n: > {mark}\nexec timeout 1 cat\n", "utf-8")
            place.chmod(0o755)
        return made

    def program(self, key: str) -> Path:
        """The program that a setting names."""
        plain = "".join(each if each.isalnum() else "-" for each in key)
        return self.folder / "programs" / plain

    def settings(self) -> str:
        """The text of a config file with all of them."""
        rows = [f"[core]\n\thooksPath = {self.folder / 'hooks'}\n"]
        for key, form in {**PROGRAMS, **SWITCHES}.items():
            program = self.program(key)
            name, value = key.format(program), form.format(program)
            section, _, rest = name.partition(".")
            inner, _, last = rest.rpartition(".")
            head = f'[{section} "{inner}"]' if inner else f"[{section}]"
            rows.append(f'{head}\n\t{last} = "{value}"\n')
        return "".join(rows)

    def lay(self, config: Path, attributes: str, *, included: bool = False) -> None:
        """Make a repository name them all. `config` is its settings file, maybe by an include."""
        text = self.settings()
        if included:
            other = config.with_name("more")
            other.write_text(text, "utf-8")
            text = f"[include]\n\tpath = {other}\n"
        with config.open("a", encoding="utf-8") as file:
            file.write(text)
        info = config.parent / "info"
        info.mkdir(exist_ok=True)
        (info / "attributes").write_text(attributes, "utf-8")
        hooks = config.parent / "hooks"
        hooks.mkdir(exist_ok=True)
        for name in HOOKS:
            (hooks / name).unlink(missing_ok=True)
            (hooks / name).symlink_to(self.folder / "hooks" / name)


def make_old(files: Iterable[Path]) -> None:
    """Let files look changed, so that git reads them again, through their filter."""
    for number, file in enumerate(files):
        when = time.time() - 10_000 - number
        os.utime(file, (when, when))


@dataclass(frozen=True)
class Scene:
    """A repository with a submodule, a repository inside, a linked worktree and a bare clone."""

    canaries: Canaries
    project: Path
    linked: Path
    bare: Path

    @property
    def places(self) -> dict[str, Path]:
        """Every form of repository that git can be in, by name."""
        return {
            "plain": self.project,
            "linked": self.linked,
            "bare": self.bare,
            "nested": self.project / "nested",
            "submodule": self.project / "sub",
        }

    @classmethod
    def make(cls, folder: Path, attributes: str = FILTERS) -> Scene:
        """Everything clean first: nothing here may run a canary before it is watched."""
        folder.mkdir(exist_ok=True)
        canaries = Canaries.make(folder / "canaries")
        files = {"a.txt": "one\n", "d.txt": "two\n"}
        lib = make_repository(folder / "lib", files)
        project = make_repository(folder / "project", files)
        add_submodule(project, lib, "sub")
        nested = make_repository(project / "nested", files)
        git(project, "-c", "advice.addEmbeddedRepo=false", "add", "nested")
        git(project, "commit", "--quiet", "-m", "a repository inside")
        for where in (project, nested, project / "sub"):
            git(where, "checkout", "--quiet", "-b", "other")
            commit(where, {"a.txt": "other\n"})
            git(where, "checkout", "--quiet", "-")
            commit(where, {"a.txt": "mine\n"})
        bare = folder / "bare.git"
        git(folder, "clone", "--quiet", "--bare", str(project), str(bare))
        linked = folder / "linked"
        git(project, "config", "extensions.worktreeConfig", "true")
        git(project, "worktree", "add", "--quiet", str(linked))
        scene = cls(canaries, project, linked, bare)
        canaries.lay(project / ".git" / "config", attributes)
        canaries.lay(project / ".git" / "worktrees" / "linked" / "config.worktree", attributes)
        canaries.lay(project / ".git" / "modules" / "sub" / "config", attributes, included=True)
        canaries.lay(nested / ".git" / "config", attributes, included=True)
        canaries.lay(bare / "config", attributes)
        for where in (project, nested, project / "sub", linked):
            (where / "a.txt").write_text("edit\n", "utf-8")
            (where / ".gitattributes").write_text(attributes, "utf-8")
            make_old([where / "a.txt", where / "d.txt"])
        modules = (project / ".gitmodules").read_text("utf-8")
        (project / ".gitmodules").write_text(f"{modules}\tignore = none\n", "utf-8")
        canaries.forget()
        return scene
