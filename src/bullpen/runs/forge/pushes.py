"""Pushes handed-in work to a forge, and fetches its branches, with the token of the worker.

Git runs in a bare repository of the worker's own. It reads the objects of the user's repository,
and nothing else of it: no settings, no hooks, no credential helpers, no remotes. So nothing that an
agent wrote there decides where the token goes. Called from a thread: it blocks.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from bullpen.agents.system.secrets import Redactor
from bullpen.errors import Conflict, Invalid, Refused, Unavailable
from bullpen.runs.forge.contract import LOOK_THERE, TryLater
from bullpen.runs.forge.place import Place, check_branch
from bullpen.runs.forge.token import Token, forge_folder
from bullpen.store.private_folder import make_private
from bullpen.workspace.git.ref_names import component
from bullpen.workspace.git.run_git import Git, GitFailed, Ran

PUSH_S = 300.0
"""Time limit of one push or fetch."""

_TOKEN = "BULLPEN_GIT_PASSWORD"  # noqa: S105 - the name of a variable
_HELPER = (
    '!f() { test "$1" = get || exit 0; '
    f'printf "username=bullpen\\npassword=%s\\n" "${_TOKEN}"; }}; f'
)
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")

_CONFIG = """\
[core]
	repositoryformatversion = {version}
	bare = true
	logAllRefUpdates = false
{extensions}"""

# What must be taken from the user's own settings for a machine behind a proxy.
_USERS_SETTINGS = ("http.proxy", "http.sslCAInfo", "http.sslCAPath")

_SETTINGS = (
    ("http.followRedirects", "false"),
    ("http.lowSpeedLimit", "1"),
    ("http.lowSpeedTime", "60"),
    ("http.saveCookies", "false"),
    ("transfer.fsckObjects", "true"),
    ("transfer.bundleURI", "false"),
    ("push.followTags", "false"),
    ("push.useForceIfIncludes", "false"),
    ("core.sshCommand", "false"),
    # An empty name forgets every helper before it.
    ("credential.helper", ""),
)


class BranchMoved(Conflict):
    """Somebody else moved or created the branch since its commit was last looked at."""


class Pushes:
    """Pushes to one repository of a forge, and fetches from it."""

    def __init__(
        self,
        home: Path,
        place: Place,
        token: Token | None,
        redactor: Redactor,
        *,
        source: Path | None,
        folder: Path | None = None,
    ) -> None:
        """`source` is the git dir of the user's repository, whose objects are pushed.

        `folder` is for a bare repository that nobody else uses.
        """
        self._place = place
        self._token = token
        self._redactor = redactor
        self._source = source
        shared = forge_folder(home) / "git" / component(f"{place.host}/{place.path}")
        self._folder = folder or shared

    @property
    def folder(self) -> Path:
        """Return the bare repository."""
        return self._folder

    def push(self, branch: str, commit: str, *, expected: str | None) -> None:
        """Move a branch of the forge from the commit that it is known to have; None for no branch.

        Raises:
            BranchMoved: the branch is elsewhere; nothing was changed.
            Refused: with reason `forge_refused`; the forge does not allow it.
            TryLater: it took too long or the forge could not be reached. It may have happened.
        """
        check_branch(branch)
        for each in (commit, expected):
            if each is not None and not _COMMIT.fullmatch(each):
                raise Invalid(f"{each[:80]!r} is not a commit.", remedy=LOOK_THERE)
        ref = f"refs/heads/{branch}"
        words = ("push", "--porcelain", "--no-verify", "--no-signed", "--no-follow-tags")
        lease = f"--force-with-lease={ref}:{expected or ''}"
        ran = self._run(*words, lease, "--", self._place.clone_url, f"{commit}:{ref}")
        if ran.ok:
            return
        said = self._said(ran)
        line = next((row for row in ran.out.splitlines() if row.startswith("!")), "")
        if "stale info" in line or "fetch first" in line or "cannot lock ref" in line:
            raise BranchMoved(
                f"The branch {branch} on {self._where} is not at"
                f" {expected[:12] if expected else 'no commit'}: somebody else changed it.",
                remedy="Bullpen does not overwrite it. Look at the branch.",
            )
        if line:
            raise _refused(f"{self._where} did not take the branch {branch}: {said}")
        raise self._trouble(ran, said)

    def fetch(self, branch: str) -> str:
        """Fetch a branch of the forge into the bare repository and return its commit.

        Raises:
            Refused: with reason `forge_refused`; there is no such branch, or no right to read it.
            TryLater: it took too long or the forge could not be reached.
        """
        check_branch(branch)
        return self._fetched(f"refs/heads/{branch}", f"refs/forge/{branch}", f"branch {branch}")

    def fetch_pull(self, number: int) -> str:
        """Fetch the head of a pull request into the bare repository and return its commit.

        Raises as `fetch` does.
        """
        ref = f"refs/pull/{number}/head"
        return self._fetched(ref, f"refs/forge-pull/{number}", f"commits of pull request {number}")

    def _fetched(self, ref: str, kept: str, what: str) -> str:
        words = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance")
        ran = self._run(*words, "--", self._place.clone_url, f"+{ref}:{kept}")
        if not ran.ok:
            said = self._said(ran)
            if "couldn't find remote ref" in ran.err:
                raise _refused(f"{self._where} has no {what}.")
            raise self._trouble(ran, said)
        return self._git()("rev-parse", "--verify", f"{kept}^{{commit}}")

    def has(self, newer: str, older: str) -> bool:
        """Return whether a commit that was fetched has another one."""
        return self._git().run("merge-base", "--is-ancestor", older, newer).ok

    def fetched_ref(self, branch: str) -> str:
        """Return the ref of the bare repository that holds a fetched branch."""
        return f"refs/forge/{check_branch(branch)}"

    @property
    def _where(self) -> str:
        return self._place.url

    def _git(self) -> Git:
        """Return git in the bare repository, which is set up again before each use."""
        source = self._source
        hash_name = "sha1" if source is None else Git(source)("rev-parse", "--show-object-format")
        sha1 = hash_name == "sha1"
        extensions = "" if sha1 else f"[extensions]\n\tobjectFormat = {hash_name}\n"
        try:
            make_private(self._folder)
            for name in ("objects/info", "refs/heads"):
                (self._folder / name).mkdir(parents=True, exist_ok=True)
            _put(self._folder / "HEAD", "ref: refs/heads/none\n")
            _put(self._folder / "config", _CONFIG.format(version=1 - sha1, extensions=extensions))
            if source is not None:
                _put(self._folder / "objects" / "info" / "alternates", f"{source / 'objects'}\n")
                # Without it, git would look for the parents that a shallow clone does not have.
                shallow = source / "shallow"
                text = shallow.read_text("ascii") if shallow.is_file() else ""
                _put(self._folder / "shallow", text)
        except OSError as error:
            raise Unavailable(
                f"{self._folder} cannot be written: {error.strerror}.",
                remedy="Check the folder's owner and the space on its disk.",
            ) from None
        return Git(self._folder, self._environment())

    def _environment(self) -> dict[str, str]:
        place = self._place
        settings = [*self._users_settings(), *_SETTINGS]
        secret = {}
        if self._token is not None and place.scheme != "file":
            settings.append((f"credential.{place.scheme}://{place.host}.helper", _HELPER))
            secret = {_TOKEN: self._token.value}
        numbered = {
            name: text
            for number, (key, value) in enumerate(settings)
            for name, text in (
                (f"GIT_CONFIG_KEY_{number}", key),
                (f"GIT_CONFIG_VALUE_{number}", value),
            )
        }
        return {
            "GIT_DIR": str(self._folder),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_PARAMETERS": "",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_ALLOW_PROTOCOL": place.scheme,
            "GIT_PROTOCOL_FROM_USER": "1",
            "GIT_ASKPASS": "false",
            "SSH_ASKPASS": "false",
            "GIT_TRACE_REDACT": "1",
            "GIT_TRACE_CURL": "0",
            "GIT_TRACE_PACKET": "0",
            # Nothing of the person's own: a .netrc would name other accounts.
            "HOME": str(self._folder),
            "XDG_CONFIG_HOME": str(self._folder),
            "GIT_CONFIG_COUNT": str(len(settings)),
            **numbered,
            **secret,
        }

    def _users_settings(self) -> list[tuple[str, str]]:
        """Return what the user configured for all repositories to reach a network."""
        found = []
        for key in _USERS_SETTINGS:
            for scope in ("--system", "--global"):
                ran = Git(self._folder).run("config", scope, "--get", key)
                if ran.ok and ran.out.strip():
                    found.append((key, ran.out.strip()))
        return found

    def _run(self, *words: str) -> Ran:
        try:
            return self._git().run(*words, seconds=PUSH_S)
        except GitFailed as error:
            raise TryLater(
                f"git took too long with {self._where}.", remedy="Bullpen tries again."
            ) from error

    def _said(self, ran: Ran) -> str:
        rows = [row for row in f"{ran.err}\n{ran.out}".splitlines() if row.strip()]
        told = [row for row in rows if row.startswith(("remote:", "fatal:", "error:", "!"))]
        return self._redactor.text("; ".join((told or rows)[:6]))[:600]

    def _trouble(self, ran: Ran, said: str) -> Exception:
        """Return the error for a git that did not get as far as an answer about a branch."""
        text = ran.err
        if any(each in text for each in _NO_RIGHT):
            return _refused(f"{self._where} does not accept the token: {said}")
        if "redirect" in text or re.search(r"returned error: 30\d", text):
            return _refused(f"{self._where} sends git to another address: {said}")
        if "transport '" in text:
            return _refused(f"git may not reach {self._where}: {said}")
        return TryLater(f"git could not reach {self._where}: {said}", remedy="Bullpen tries again.")


_NO_RIGHT = (
    "Authentication failed",
    "returned error: 401",
    "returned error: 403",
    "returned error: 404",
    "not found",
    "could not read Username",
    "could not read Password",
    "does not appear to be a git repository",
)


def _put(path: Path, text: str) -> None:
    """Write a small file unless it holds that already."""
    try:
        if not path.is_symlink() and path.read_text("utf-8", "replace") == text:
            return
    except FileNotFoundError:
        pass
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    fresh.write_text(text, "utf-8")
    os.replace(fresh, path)


def _refused(message: str) -> Refused:
    return Refused(
        message,
        reason="forge_refused",
        remedy="Check the url, the rights of the token and the rules of the repository:"
        " bullpen forge check",
    )
