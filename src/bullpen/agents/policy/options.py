"""Options with which a program does what a rule that allows it does not say.

A rule such as `Bash(git log:*)` was written for looking at history. `git log --output=FILE` writes
a file, and `find . -exec rm` runs another program. This is the table of such words. A part that
has one is not covered by a rule with an open end, unless the rule itself goes as far as that word.

The table knows the programs that people list in rules because they seem harmless. It does not know
programs that run any code by their nature, such as python, node, bash or docker: whoever allows
`Bash(python:*)` allows everything. Nor does it say what a program reads. That is for a sandbox.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from bullpen.agents.policy.words import Part, Word


@dataclass(frozen=True, slots=True)
class _Risks:
    """The dangerous words of one program.

    `words` stand alone, those with two dashes also with `=` or, where the program takes that,
    `shortened`. `letters` are short options, alone, among others or with a value. `shape` is a
    pattern that no word may match.
    """

    words: tuple[str, ...] = ()
    letters: str = ""
    shape: re.Pattern[str] | None = None
    shortened: bool = True


def _risks(
    words: str = "", letters: str = "", shape: str | None = None, *, shortened: bool = True
) -> _Risks:
    pattern = None if shape is None else re.compile(shape, re.DOTALL)
    return _Risks(tuple(words.split()), letters, pattern, shortened)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FIND = "-exec -execdir -ok -okdir -delete -fprint -fprint0 -fprintf -fls"
_AWK = _risks(
    "--file --exec --include --load --pretty-print --dump-variables --profile --debug",
    "fEilpdDo",
    shape=r"system|getline|[|>@]",
)
_PYTEST = _risks(
    "--junitxml --junit-xml --basetemp --log-file --debug --config-file --rootdir --confcutdir"
    " --override-ini --pastebin --report-log --resultlog --html --cov-report --cov-config"
    " --pdb --pdbcls --trace --import-mode --pyargs --cache-clear",
    "pco",
    shortened=False,
)
_PIP = _risks(
    "--index-url --extra-index-url --find-links --target --prefix --root --src --editable"
    " --config-settings --global-option --build-option --python --log --report --cache-dir --proxy"
    " --trusted-host --cert --client-cert",
    "iftCe",
    shape=r"://|^git\+",
)
# npm takes its long options with one dash as well, and yarn and pnpm take most of the same.
_NPM = _risks(
    "--prefix --script-shell --globalconfig --userconfig --cache --node-options --git --call"
    " --init-module --onload-script --editor --browser --viewer --shell --registry --cwd --dir"
    " --use-yarnrc --modules-folder --global --location --workspace --require",
    "Ccgw",
    shape=r"^-(?:prefix|script|global|user|cache|node|git|call|init|onload|editor|browser|viewer|shell)",
)
_COMPILER = _risks(
    "-wrapper --specs -specs", "oB", shape=r"^@|^-fplugin|^-fdump|^-MF|^-Xlinker|^-Wl,"
)

_TABLE: dict[str, _Risks] = {
    # Text.
    "awk": _AWK,
    "gawk": _AWK,
    "mawk": _AWK,
    "nawk": _AWK,
    "sort": _risks("--output --compress-program --temporary-directory", "oT"),
    "shuf": _risks("--output", "o"),
    "iconv": _risks("--output", "o"),
    "tree": _risks(letters="o"),
    "yq": _risks("--inplace --in-place --split-exp --split-exp-file", "is"),
    "jq": _risks("--from-file --library-path", "fL"),
    "less": _risks("--log-file --LOG-FILE --lesskey-file --lesskey-src", "oOk", shape=r"^\+"),
    "man": _risks("--pager --html --config-file --browser", "PHCM"),
    "file": _risks("--compile", "C"),
    "rg": _risks("--pre --hostname-bin --search-zip", "z"),
    "printf": _risks(letters="v"),
    "test": _risks("-v"),
    "[": _risks("-v"),
    # Files.
    "find": _risks(_FIND),
    "fd": _risks("--exec --exec-batch", "xX"),
    "fdfind": _risks("--exec --exec-batch", "xX"),
    "tar": _risks(
        "--checkpoint-action --to-command --use-compress-program --rsh-command --rmt-command"
        " --info-script --new-volume-script --index-file --remove-files --absolute-names",
        "IFP",
        # The old style has no dash: `tar cIf`.
        shape=r"^[A-Za-z]*[IFP][A-Za-z]*$",
    ),
    "zip": _risks("-TT --unzip-command --test", "Tm"),
    # Other machines.
    "ssh": _risks(letters="oFESJLRDw"),
    "scp": _risks(letters="oFSJD"),
    "sftp": _risks(letters="oFSJDb"),
    "rsync": _risks(
        "--rsh --rsync-path --remote-option --log-file --write-batch --only-write-batch --delete"
        " --remove-source-files --daemon --config --temp-dir --backup-dir --partial-dir",
        "eMT",
    ),
    "curl": _risks(
        "--output --remote-name --remote-name-all --output-dir --config --upload-file --data"
        " --data-binary --data-raw --data-ascii --data-urlencode --json --form --form-string"
        " --dump-header --cookie-jar --trace --trace-ascii --stderr --libcurl --hsts --alt-svc"
        " --etag-save --engine --proxy --preproxy --netrc-file --unix-socket --create-dirs",
        "oOKTdFDcxE",
        shape=r"^file:|^@",
    ),
    "wget": _risks(
        "--use-askpass --execute --post-file --body-file --config --input-file --post-data"
        " --body-data --hsts-file --save-cookies --warc-file",
        "ei",
    ),
    # Building and testing.
    "make": _risks("--file --makefile --directory --include-dir --eval", "fCIE", shape=r"="),
    "gmake": _risks("--file --makefile --directory --include-dir --eval", "fCIE", shape=r"="),
    "npm": _NPM,
    "pnpm": _NPM,
    "yarn": _NPM,
    "pip": _PIP,
    "pip3": _PIP,
    "uv": _risks("--directory --project --python --config-file --cache-dir --with --index", "p"),
    "pytest": _PYTEST,
    "py.test": _PYTEST,
    "ruff": _risks("--fix --fix-only --unsafe-fixes --output-file --config --cache-dir", "o"),
    "mypy": _risks(
        "--python-executable --junit-xml --cache-dir --config-file --custom-typeshed-dir"
        " --any-exprs-report --cobertura-xml-report --html-report --linecount-report"
        " --linecoverage-report --lineprecision-report --txt-report --xml-report --xslt-html-report"
        " --install-types --shadow-file"
    ),
    "eslint": _risks(
        "--rulesdir --resolve-plugins-relative-to --config --output-file --fix --plugin --parser"
        " --cache-location --cache-file --format --init",
        "cof",
    ),
    "prettier": _risks("--write --plugin --config --plugin-search-dir --cache-location", "w"),
    "tsc": _risks("--outDir --outFile --project --tsBuildInfoFile --declarationDir --build", "pb"),
    "cargo": _risks(
        "--config --manifest-path --target-dir --out-dir --artifact-dir", "ZC", shape=r"^\+"
    ),
    "go": _risks("-exec -toolexec -o -overlay -vettool -modfile -C", shape=r"^-+[a-z]+="),
    "gcc": _COMPILER,
    "g++": _COMPILER,
    "cc": _COMPILER,
    "clang": _COMPILER,
}

_SETTERS = _names(
    "export declare typeset local readonly read mapfile readarray let unset hash getopts history"
    " fc bind complete compgen compopt pushd popd dirs wait jobs umask"
)
"""Builtins that set variables or places, which changes what later words mean, or run something."""

_RUNNERS = _names(
    "env xargs parallel sudo doas su runuser nohup nice ionice chrt timeout time watch setsid"
    " stdbuf script unshare nsenter chroot strace ltrace gdb flock taskset command builtin busybox"
    " toybox systemd-run setarch linux32 linux64 proot fakeroot unbuffer expect entr caffeinate"
    " npx bunx uvx pipx corepack start-stop-daemon run-parts at batch"
)
"""Programs that run the program which their words name."""

_NUMBER = re.compile(r"[0-9.]+[smhd]?")


def dangerous(part: Part, *, said: int = 0) -> str | None:
    """The word with which a program does what its name does not say, if there is one.

    `said` is how many of the first words the rule names itself. What a rule says, it means, and
    these words are not looked at.
    """
    words = part.words
    if not words or said >= len(words):
        return None
    name = os.path.basename(words[0].text)
    if name in _SETTERS:
        return name
    if name in _RUNNERS:
        return None if _names_what_runs(words[1:said]) else name
    if name == "git":
        return _git(words, said)
    if name == "sed":
        return _sed(words, said)
    if name in {"uniq", "xxd"}:
        operands = [word.text for word in words[1:] if not word.text.startswith("-")]
        return operands[1] if len(operands) > 1 else _unsure(words[max(said, 1) :])
    module = _python_module(words)
    risks = _PYTEST if module == "pytest" else _PIP if module == "pip" else _TABLE.get(name)
    start = 3 if module else 1
    return None if risks is None else _first(words[max(said, start) :], risks)


def _first(words: tuple[Word, ...], risks: _Risks) -> str | None:
    for word in words:
        if may_be_option(word) or _matches(word.text, risks):
            return word.text
    return None


def _matches(text: str, risks: _Risks) -> bool:
    if risks.shape is not None and risks.shape.search(text):
        return True
    if text in risks.words:
        return True
    if text.startswith("--") and len(text) > 2:
        name = text.partition("=")[0]
        if not risks.shortened:
            return name in risks.words
        return any(option.startswith(name) for option in risks.words)
    return text.startswith("-") and any(letter in text[1:] for letter in risks.letters)


def may_be_option(word: Word) -> bool:
    """Whether a word that is not literal can turn into an option, whatever it looks like.

    A variable can hold several words, and a file may be named like an option.
    """
    if word.literal:
        return False
    return "$" in word.text or "`" in word.text or word.text[:1] in {"-", "*", "?", "[", "{", "<"}


def _unsure(words: tuple[Word, ...]) -> str | None:
    return next((word.text for word in words if not word.literal), None)


def _names_what_runs(said: tuple[Word, ...]) -> bool:
    """Whether the words of a rule go as far as the program that another one is to run."""
    if any(word.text.startswith("-") for word in said):
        # Which options take a value differs from program to program.
        return False
    return any("=" not in word.text and not _NUMBER.fullmatch(word.text) for word in said)


def _python_module(words: tuple[Word, ...]) -> str | None:
    name = os.path.basename(words[0].text)
    if not re.fullmatch(r"(?:python|pypy)[0-9.]*", name) or len(words) < 3:
        return None
    return words[2].text if words[1].text == "-m" else None


_GIT_GLOBAL_VALUES = _names("-c -C --git-dir --work-tree --namespace --config-env --exec-path")
_GIT_GLOBAL_HARMLESS = _names(
    "--no-pager -P --no-optional-locks --version --help --literal-pathspecs --no-replace-objects"
    " --no-lazy-fetch -h -v"
)
_GIT_RUNS = _names(
    "config submodule bisect difftool mergetool filter-branch hook daemon instaweb web--browse"
    " send-email gui citool shell upload-pack receive-pack http-backend fast-import for-each-repo"
    " maintenance p4 svn cvsserver archimport credential credential-store credential-cache"
    " request-pull remote-ext remote-fd imap-send"
)
_GIT = _risks(
    "--output --output-directory --ext-diff --upload-pack --receive-pack --exec --extcmd --tool"
    " --open-files-in-pager --separate-git-dir --template --config --config-env --exec-path"
    " --git-dir --work-tree --no-index --contents --strategy --smtp-server --sendmail-cmd"
    " --to-cmd --cc-cmd",
    # Addresses of the form `ext::PROGRAM`.
    shape=r"^[a-z0-9+-]+::",
)
_GIT_LETTERS = {
    "grep": "O",
    "rebase": "x",
    "archive": "o",
    "format-patch": "o",
    "clone": "uc",
    "merge": "s",
    "pull": "s",
}


def _git(words: tuple[Word, ...], said: int) -> str | None:
    """The table for git: options in front of the subcommand, the subcommand, and behind it."""
    at = 1
    while at < len(words) and words[at].text.startswith("-"):
        word = words[at]
        if at >= said and word.text not in _GIT_GLOBAL_HARMLESS:
            return word.text
        at += 2 if word.text in _GIT_GLOBAL_VALUES else 1
    if at >= len(words):
        return None
    subcommand = words[at].text
    if at >= said and (subcommand in _GIT_RUNS or not words[at].literal):
        return subcommand
    risks = _Risks(_GIT.words, _GIT_LETTERS.get(subcommand, ""), _GIT.shape)
    rest = words[max(said, at + 1) :]
    if subcommand == "diff":
        # Two files, one of them outside, are compared like any other files.
        outside = [w.text for w in rest if w.text.startswith(("/", "~")) or "../" in w.text]
        if outside:
            return outside[0]
    return _first(rest, risks)


_SED_REPLACE = "|".join(
    rf"s{mark}[^{mark}\n\\]*{mark}[^{mark}\n\\]*{mark}[gpiI0-9]*" for mark in "/,#:%@"
)
_SED_COMMAND = rf"\s*(?:[0-9$]+(?:,[0-9$+]+)?)?(?:[pdq=]|{_SED_REPLACE})\s*"
_SED_SCRIPT = re.compile(rf"{_SED_COMMAND}(?:;{_SED_COMMAND})*;?")
_SED_HARMLESS = re.compile(r"-[nErsuz]+|--(?:quiet|silent|regexp-extended|posix|help|version)")
_SED_SCRIPT_NEXT = re.compile(r"-[nErsuz]*e|--expression")


def _sed(words: tuple[Word, ...], said: int) -> str | None:
    """The table for sed: its scripts can write files and run programs, and -i changes files.

    Only the plainest scripts are taken for harmless: print, delete, quit, and replace.
    """
    script_next = script_seen = False
    for at, word in enumerate(words[1:], start=1):
        text = word.text
        if script_next or not (text.startswith("-") or script_seen):
            fine = word.literal and bool(_SED_SCRIPT.fullmatch(text))
            script_next, script_seen = False, True
        elif text.startswith("-"):
            script_next = bool(_SED_SCRIPT_NEXT.fullmatch(text))
            fine = word.literal and (script_next or bool(_SED_HARMLESS.fullmatch(text)))
        else:
            fine = not may_be_option(word)
        if at >= said and not fine:
            return text
    return None
