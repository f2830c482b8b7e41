"""The last commit of a task's work on the target: it says which task and agent it is from."""

from __future__ import annotations

from bullpen.protocol.task import Task
from bullpen.workspace.git.replay_commits import Replayed, merged_by, message_of, with_tree
from bullpen.workspace.git.run_git import Git
from bullpen.workspace.git.task_commits import has_trailers, message, with_author


def merge_commit(
    git: Git,
    work: Replayed,
    onto: Replayed,
    *,
    task: Task,
    agent: str,
    author: str | None,
    tree: str | None = None,
) -> Replayed:
    """Return the commit with which rebased work is merged. `tree` replaces its tree.

    If Bullpen made the last commit, that is the one. An agent's own commits keep their words, and
    are merged by a merge commit. Without any work, nothing is made.

    Raises:
        GitFailed: git fails.
        Invalid: the configured author is not `Name <address>`.
    """
    if work.commit == onto.commit:
        return work
    if has_trailers(message_of(git, work.commit), agent, task.id):
        return work if tree in (None, work.tree) else with_tree(git, work, tree or work.tree)
    named = with_author(git, author, agent=agent)
    return merged_by(
        git,
        work,
        onto,
        tree=tree or work.tree,
        people=(_ident(named, "AUTHOR"), _ident(named, "COMMITTER")),
        message=message(task.subject, task.id, agent, merge=True),
    )


def _ident(git: Git, role: str) -> str:
    """Return `Name <address>` of the author or the committer, without the date."""
    return git("var", f"GIT_{role}_IDENT").rsplit(" ", 2)[0]
