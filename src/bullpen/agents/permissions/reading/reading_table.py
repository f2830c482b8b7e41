"""The words of commands that only read files of the project, in the notation of harmless words.

Every operand is judged: `read` is a path that the Read tool may read unasked. Left out are options
that write, run a program, take names of files from a file, follow links while they search, or wait.
A name with a plus is the entry for a command that has one of these options.
"""

from __future__ import annotations

import re

from bullpen.agents.permissions.shell.harmless.notation import Tables

_FILES = r"""
ls: -1AaBbCcdFfGghiklmNnopQqRrSstUuvXxZ --all --almost-all --author --escape --block-size
  --classify --color --directory --file-type --format --full-time --group-directories-first
  --human-readable --si --hide= --indicator-style --inode --ignore= --kibibytes --literal
  --numeric-uid-gid --quote-name --quoting-style --recursive --reverse --size --sort --time
  --time-style --width= --zero at *read
cat, tac: -AbeEnstTuv --number --number-nonblank --show-all --show-ends --show-tabs
  --show-nonprinting --squeeze-blank *read
nl: -p -b= -n= -s= -v= -w= --body-numbering= --number-format= --number-width= *read
head: -qvz -# -n=count -c=count --lines=count --bytes=count --quiet --verbose --zero-terminated
  *read
tail: -qvz -# -n=count -c=count --lines=count --bytes=count --quiet --verbose --zero-terminated
  *read
wc: -clLmw --bytes --chars --lines --max-line-length --words *read
cut: -nsz -b= -c= -d= -f= --bytes= --characters= --delimiter= --fields= --complement
  --only-delimited --output-delimiter= --zero-terminated *read
sort: -bcCdfghiMnrRsuVz -k= -t= --key= --field-separator= --reverse --unique --numeric-sort
  --general-numeric-sort --human-numeric-sort --version-sort --ignore-case
  --ignore-leading-blanks --dictionary-order --month-sort --check --stable --zero-terminated *read
uniq: -cdDuiz -f= -s= -w= --count --repeated --unique --ignore-case --skip-fields= --skip-chars=
  --check-chars= --zero-terminated *read,none
tr: -cCdst --complement --delete --squeeze-repeats --truncate-set1 at *text
rev, fold, paste, expand, unexpand: *read
column: -txJ -c= -s= -o= --table --separator= --output-separator= *read
comm: -123 --check-order --nocheck-order --total *read
cmp: -bls --print-bytes --verbose --quiet --silent *read
diff: -abBdEiNpqsTtuwy -C= -U= -W= --brief --color --context --expand-tabs --ignore-all-space
  --ignore-blank-lines --ignore-case --ignore-space-change --minimal --new-file --no-dereference
  --report-identical-files --show-c-function --side-by-side --suppress-common-lines --text --unified
  --width= --strip-trailing-cr *read
stat: -Lft -c= --dereference --file-system --format= --printf= --terse *read
file: -bhikLrN --brief --mime --mime-type --mime-encoding --dereference --no-dereference *read
du: -0abchkmsSx -d= --all --apparent-size --bytes --count-links --human-readable --max-depth=
  --one-file-system --separate-dirs --summarize --total *read
tree: -aCdDfFghiJnpqQrstuv -L= -I= -P= --dirsfirst --du --gitignore --noreport --prune --charset
  --filelimit --matchdirs --ignore-case --sort *read
basename: -az -s= --multiple --suffix= --zero *text
dirname: -z --zero *text
realpath, readlink: -efmnqszv --canonicalize --canonicalize-existing --canonicalize-missing
  --no-newline --zero *read
md5sum, sha1sum, sha256sum, sha512sum, cksum, b2sum: -btz --binary --text --tag --zero *read
od: -bcdfhiloxsv -A= -j= -N= -t= -w? *read
hexdump: -bcCdovx -n= -s= *read
strings: -an= -t= -# --all --bytes= --radix= *read
sed: -nEr --quiet --silent --regexp-extended needs:-n,-nE,-nr,-En,-rn,--quiet,--silent
  at *sedprint,read
find: one-dash -P -name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -type
  -xtype -maxdepth -mindepth -depth -mount -xdev -newer -newermt -mtime -atime -ctime -mmin -amin
  -cmin -size -empty -perm -user -group -links -inum -readable -writable -executable -true -false
  -prune -quit -print -print0 -printf -ls -o -or -a -and -not /-[0-9]+[a-zA-Z]*/ at *read
"""

_SEARCH = r"""
@grep: at -abcEFGHhIilLnoPqsTUvwxyZz -r -# -A= -B= -C= -m= --after-context= --before-context=
  --context= --basic-regexp --binary --byte-offset --color --colour --count --extended-regexp
  --exclude= --exclude-dir= --files-with-matches --files-without-match --fixed-strings --ignore-case
  --include= --initial-tab --invert-match --label= --line-buffered --line-number --line-regexp
  --max-count= --no-filename --no-ignore-case --no-messages --null --null-data --only-matching
  --perl-regexp --quiet --recursive --silent --text --with-filename --word-regexp
grep, egrep, fgrep: @grep *pattern,read
grep+, egrep+, fgrep+: @grep -e=text --regexp=text *read
@rg: at -abcFHhIilNnoPpqsSuUvwx0 -A= -B= -C= -d= -g= -j= -m= -M= -r= -t= -T= --after-context=
  --before-context= --context= --byte-offset --case-sensitive --color= --column --count
  --count-matches --crlf --engine= --files-with-matches --files-without-match --fixed-strings
  --glob= --heading --hidden --ignore-case --iglob= --include-zero --invert-match --json
  --line-number --line-regexp --max-columns= --max-count= --max-depth= --max-filesize= --multiline
  --multiline-dotall --no-config --no-filename --no-heading --no-ignore --no-ignore-vcs
  --no-line-number --no-messages --no-unicode --null --one-file-system --only-matching --passthru
  --pcre2 --pretty --quiet --replace= --smart-case --sort= --sortr= --stats --text --threads= --trim
  --type= --type-not= --unrestricted --vimgrep --with-filename --word-regexp
rg: @rg *pattern,read
rg+: @rg -e=text --regexp=text --files --type-list *read
"""

_WORDS = r"""
echo: any
printf: at *text
true, false, pwd, whoami, nproc, arch, uptime: -LPs
uname: -amnoprsv
date: -uRI? -d= --date= --utc --iso-8601 --rfc-3339 --rfc-email *date
which: -a *name
command: -v needs:-v *name
"""

_GIT = r"""
@patch: -pswbDRazMC -U? -S= -G= -M? -C? -B? -l= --patch --no-patch --unified --raw --stat --numstat
  --shortstat --dirstat --compact-summary --summary --name-only --name-status --color --no-color
  --color-words --word-diff --minimal --patience --histogram --diff-algorithm --no-renames
  --find-renames --find-copies --diff-filter --pickaxe-all --pickaxe-regex --text
  --ignore-space-at-eol --ignore-space-change --ignore-all-space --ignore-blank-lines
  --ignore-cr-at-eol --function-context --exit-code --quiet --no-ext-diff --no-textconv --no-prefix
  --full-index --abbrev --no-abbrev --binary --check --cc -W -m -c -t -r
@walk: -# -n= -i -E -F -g --max-count --skip --since --after --until --before --author --committer
  --grep --all-match --invert-grep --regexp-ignore-case --extended-regexp --fixed-strings
  --perl-regexp --merges --no-merges --first-parent --not --all --branches --tags --remotes
  --left-right --cherry-pick --cherry-mark --boundary --full-history --date-order --topo-order
  --reverse --no-walk --abbrev-commit --no-abbrev-commit --oneline --graph --parents --date
  --relative-date
@text: -L= --follow --decorate --no-decorate --source --no-notes --notes --format=format
  --pretty=format --no-mailmap
git: -P --no-pager --no-optional-locks --version --literal-pathspecs
git log, git show, git whatchanged, git reflog show, git stash show: @patch @walk @text at *text
git reflog: -#
git stash list: -#
git diff, git diff-tree, git diff-index, git diff-files: @patch --staged --cached --merge-base
  --ignore-submodules at *repository
git status: -sbvzu? --short --branch --show-stash --porcelain --long --verbose --untracked-files
  --ignored --ahead-behind --no-ahead-behind --renames --no-renames --ignore-submodules at
  *repository
git shortlog: -snec -# @walk --summary --numbered --email at *text
git rev-list: @walk --count --quiet at *text
git rev-parse: -q --short --abbrev-ref --symbolic --symbolic-full-name --verify --quiet
  --show-toplevel --show-prefix --show-cdup --git-dir --git-common-dir --absolute-git-dir
  --is-inside-work-tree --is-inside-git-dir --is-bare-repository --is-shallow-repository --all
  --branches --tags --remotes at *text
git show-ref: -dqs --head --heads --tags --branches --dereference --hash --abbrev --verify --quiet
  *text
git for-each-ref: --count --sort --format --points-at --merged --no-merged --contains --no-contains
  *text
git blame: -bflnstwecpCM? -L= -# --porcelain --line-porcelain --date --show-name --show-number
  --show-email --abbrev --since at *repository
git grep: -aiwvhHEGFPnlLzcqop -A= -B= -C= -W -m= -e=text -# --text --ignore-case --word-regexp
  --invert-match --full-name --extended-regexp --basic-regexp --fixed-strings --perl-regexp
  --line-number --column --files-with-matches --name-only --files-without-match --null --count
  --color --no-color --break --heading --show-function --context --after-context --before-context
  --function-context --and --or --not --all-match --quiet --cached --max-depth --max-count at
  *repository
git ls-files: -cdmosuktvfz -x= --cached --deleted --modified --others --stage --unmerged --directory
  --exclude --exclude-standard --error-unmatch --full-name --abbrev *repository
git ls-tree: -drtlz --name-only --name-status --object-only --full-name --full-tree --long --abbrev
  at *text
git cat-file: -tesp at *text
git merge-base: -a --all --octopus --independent --is-ancestor --fork-point at *text
git describe: --all --tags --contains --abbrev --candidates --exact-match --long --match --exclude
  --always --first-parent at *text
git name-rev: --tags --name-only --always at *text
git count-objects: -vH --verbose --human-readable
git check-ignore: -qvn --quiet --verbose --no-index --non-matching *repository
git branch: -avr --list --all --remotes --show-current --verbose --sort --color --no-color --column
git branch+: -avr --list --all --remotes --verbose --sort --color --no-color --column --format *text
git tag: -n? --list -l --sort --column
git tag+: -ln? --list --sort --column --format --contains --merged *text
git remote: -v --verbose
git remote get-url: --all --push *name
git worktree list: -v --porcelain --verbose
git version: --build-options
"""

READING = Tables(_FILES, _SEARCH, _WORDS, _GIT)
"""The entries by program and subcommand."""

BUILTINS = frozenset(["command", "echo", "false", "printf", "pwd", "true"])
"""Commands that bash runs itself."""

FILTERS = frozenset(
    """
    cat column cut egrep expand fgrep fold grep head nl rev sed sort tac tail tr unexpand uniq wc
    """.split()  # noqa: SIM905 - one name a line would fill the page
)
"""Programs that read their input if they are given no file."""

SUBMODULES_READ = frozenset(["git diff", "git diff-files", "git diff-index", "git status"])
"""Commands for which git starts itself in the submodules."""

_NO_CONTENT = frozenset(
    """
    branch branch+ check-ignore count-objects describe ls-files merge-base name-rev remote rev-list
    rev-parse show-ref status tag tag+ version
    """.split()  # noqa: SIM905 - one name a line would fill the page
)
_LOG_WITHOUT_CONTENT = re.compile(
    r"[^-].*|-[0-9]+|-n[0-9]*|--(?:oneline|graph|all|stat|name-only|name-status|no-merges|merges"
    r"|(?:decorate|format|pretty|since|until|author|max-count|date)(?:=.*)?)"
)
_RECURSIVE = re.compile(r"-[A-Za-z0-9]*r.*|--recursive.*")
_WITH_PATTERN = re.compile(r"-[A-Za-z0-9]*e.*|--(?:regexp|files|type-list)(?:=.*)?")
_LISTING = frozenset(["--list", "-l"])


def entry_for(key: str, words: list[str]) -> str:
    """The entry for a command: the one with a plus if an option changes what its operands are."""
    if key in {"grep", "egrep", "fgrep", "rg"}:
        return f"{key}+" if any(map(_WITH_PATTERN.fullmatch, words)) else key
    if key in {"git branch", "git tag"}:
        return f"{key}+" if _LISTING & set(words) else key
    return key


def reads_below(key: str, words: list[str]) -> bool:
    """Whether a command shows the content of files that its words do not name."""
    if key.startswith("git"):
        if key == "git log":
            return not all(map(_LOG_WITHOUT_CONTENT.fullmatch, words[1:]))
        return key.removeprefix("git ") not in _NO_CONTENT
    if key.rstrip("+") in {"grep", "egrep", "fgrep"}:
        return any(map(_RECURSIVE.fullmatch, words))
    return key.rstrip("+") in {"diff", "rg"}
