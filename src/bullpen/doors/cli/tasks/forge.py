"""`bullpen forge`: issues and pull requests on GitHub, Gitea or Forgejo."""

from __future__ import annotations

from typing import Annotated

from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options import completion
from bullpen.doors.cli.options.option import argument, flag, option
from bullpen.doors.cli.session import Session
from bullpen.doors.cli.tasks.forge_view import ForgeCommands
from bullpen.doors.cli.tasks.forge_view import login as log_in

_URL = "Page of the repository; by default the team's, or that of this clone"


@examples(
    "bullpen forge login",
    "bullpen forge login https://github.com/acme/shop < token.txt",
    "bullpen forge login https://git.example/acme/shop --forget",
)
def login(
    session: Session,
    url: Annotated[str | None, argument(_URL, "URL")] = None,
    *,
    forget: Annotated[bool, flag("Remove the token instead", "--forget")] = False,
) -> None:
    """Keep the token of a forge in Bullpen's home.

    Reads the token from a prompt or from standard input, never from the command line. No agent gets
    it.
    """
    log_in(session, url, forget=forget)


@examples("bullpen forge check", "bullpen forge check --file TEAM.toml")
def check(
    session: Session,
    *,
    file: Annotated[
        str | None, option("Check a team file whose team does not exist yet", "FILE")
    ] = None,
) -> None:
    """Check the settings, the token, its rights and the branch.

    Exits with 1 if something is missing.
    """
    ForgeCommands(session).check(file)


@examples("bullpen forge status", "bullpen forge status --json")
def status(session: Session) -> None:
    """Show issues, their tasks and their pull requests."""
    ForgeCommands(session).status()


@examples("bullpen forge sync", "bullpen forge sync -t alpha")
def sync(session: Session) -> None:
    """Read the forge and write to it once.

    `bullpen up` does so all the time; use this for a team that is not running.
    """
    ForgeCommands(session).sync()


@examples("bullpen forge hook", "bullpen forge hook --new")
def hook(
    session: Session,
    *,
    new: Annotated[bool, flag("Replace the secret by a new one", "--new")] = False,
) -> None:
    """Show what to enter for a webhook on the forge.

    Optional: `bullpen web` then hears at once what changed, instead of at the next look. Shows a
    secret.
    """
    ForgeCommands(session).hook(new=new)


@examples(
    "bullpen forge resume 3",
    "bullpen forge resume 3 --keep-theirs",
    "bullpen forge resume night-1",
)
def resume(
    session: Session,
    task_id: Annotated[str, argument("The task or night", "TASK", complete=completion.task_ids)],
    *,
    keep_theirs: Annotated[
        bool, flag("Go on from what others pushed to its branch", "--keep-theirs")
    ] = False,
) -> None:
    """Let a task or a night go on that waits for you.

    It gets new rounds.
    """
    ForgeCommands(session).resume(task_id, keep_theirs=keep_theirs)


@examples(
    "bullpen forge set --url https://github.com/acme/shop --label agents",
    "bullpen forge set --merge queue --rounds 3",
    "bullpen forge set --merge queue --pull-request night",
    "bullpen forge set",
)
def set_(
    session: Session,
    *,
    url: Annotated[str | None, option("Page of the repository", "URL")] = None,
    kind: Annotated[str | None, option("github or gitea", "KIND")] = None,
    api: Annotated[str | None, option("Address of its API; '' for its own", "URL")] = None,
    label: Annotated[
        list[str] | None, option("Label that an issue needs; '' for none", "LABEL")
    ] = None,
    assignee: Annotated[
        str | None, option("Account that an issue is assigned to; '' for any", "LOGIN")
    ] = None,
    milestone: Annotated[str | None, option("Milestone of issues; '' for any", "NAME")] = None,
    query: Annotated[str | None, option("Words for the forge's search", "WORDS")] = None,
    merge: Annotated[str | None, option("Who merges: forge or queue", "WHO")] = None,
    pull_request: Annotated[
        str | None, option("What one pull request holds: task or night", "WHAT")
    ] = None,
    method: Annotated[str | None, option("merge, squash or rebase", "METHOD")] = None,
    rounds: Annotated[
        int | None, option("How often work goes back before you are asked", "N", min=0, max=20)
    ] = None,
    poll_s: Annotated[
        int | None, option("Seconds between two looks", "SECONDS", min=1, max=86_400)
    ] = None,
) -> None:
    """Show or set which forge the team uses.

    A team file sets it in [forge]. Only a person may change it.
    """
    ForgeCommands(session).configure(
        url=url,
        texts={
            "kind": kind,
            "api": api,
            "assignee": assignee,
            "milestone": milestone,
            "query": query,
            "merge": merge,
            "pull_request": pull_request,
            "method": method,
        },
        labels=label,
        numbers={"rounds": rounds, "poll_s": poll_s},
    )


@examples("bullpen forge unset")
def unset(session: Session) -> None:
    """Let the team use no forge any more.

    Issues and pull requests stay as they are.
    """
    ForgeCommands(session).unset()
