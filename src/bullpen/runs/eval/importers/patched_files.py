"""The files that a patch of tests makes, read from a clone without touching it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from bullpen.runs.eval.clones import apply_patch, make_clone
from bullpen.runs.eval.importers.new_suite import NoTask
from bullpen.runs.eval.suite import EvalTask
from bullpen.workspace.git.run_git import Git, GitFailed


def files_after(source: Git, base: str, *patches: str) -> dict[str, bytes]:
    """Return the files that patches change or add, as they are after them. Raises NoTask."""
    with tempfile.TemporaryDirectory(prefix="bullpen-import-") as folder:
        clone = Path(folder, "clone")
        try:
            make_clone(_begins_at(source.where, base), clone)
            for number, patch in enumerate(patches):
                path = Path(folder, f"{number}.patch")
                path.write_text(patch if patch.endswith("\n") else patch + "\n", "utf-8")
                apply_patch(clone, path)
        except GitFailed as error:
            raise NoTask(f"its tests do not apply to {base[:10]}: {error.said[-200:]}") from None
        git = Git(clone)
        git("add", "--all", "--force", ".")
        touched = git.lines("diff", "--cached", "--no-renames", "--name-only", "-z", "HEAD")
        links = [path for path in touched if (clone / path).is_symlink()]
        if links:
            raise NoTask(f"its tests have a link: {links[0]}")
        there = [path for path in touched if (clone / path).is_file()]
        return {path: (clone / path).read_bytes() for path in there}


def _begins_at(repository: Path, base: str) -> EvalTask:
    return EvalTask(
        name="import",
        folder=repository,
        title="",
        instructions="",
        repository=repository,
        base=base,
        test="",
        must_pass=(),
        protect=(),
        timeout_s=0.0,
        test_timeout_s=0.0,
        read=(),
        hosts=(),
        parts=(),
    )
