"""Harmless words for git, by subcommand.

Left out are the options that run a program, write a file elsewhere, use another repository or make
git read one: --output, --ext-diff, --exec, --upload-pack, -c, -C and their like.
"""

GIT = r"""
@diff: -pswbDRazMC -U? -S= -G= -M? -C? -B? -l= --patch --no-patch --unified --raw --stat --numstat
  --shortstat --dirstat --compact-summary --summary --name-only --name-status --color --no-color
  --color-words --word-diff --word-diff-regex --minimal --patience --histogram --diff-algorithm
  --no-renames --find-renames --find-copies --find-copies-harder --diff-filter --pickaxe-all
  --pickaxe-regex --relative --text --ignore-space-at-eol --ignore-space-change --ignore-all-space
  --ignore-blank-lines --ignore-cr-at-eol --function-context --exit-code --quiet --no-ext-diff
  --no-textconv --src-prefix --dst-prefix --no-prefix --full-index --abbrev --no-abbrev --binary
  --inter-hunk-context --check --submodule --ignore-submodules --output-indicator-new
  --output-indicator-old --output-indicator-context --ws-error-highlight --stat-width
  --color-moved --color-moved-ws --no-color-moved --irreversible-delete --cc -W -m -c -t -r
@revs: -# -n= -i -E -F -g --max-count --skip --since --after --until --before --author --committer
  --grep --all-match --invert-grep --regexp-ignore-case --extended-regexp --fixed-strings
  --perl-regexp --merges --no-merges --min-parents --max-parents --first-parent --not --all
  --branches --tags --remotes --glob --exclude --ignore-missing --bisect --cherry-mark
  --cherry-pick --left-only --right-only --left-right --cherry --walk-reflogs --merge --boundary
  --simplify-by-decoration --simplify-merges --full-history --dense --sparse --ancestry-path
  --date-order --author-date-order --topo-order --reverse --no-walk --no-abbrev-commit
  --abbrev-commit --oneline --graph --children --parents --objects --count --date --relative-date
  --reflog --timestamp --encoding
@log: -L= --follow --no-follow --decorate --no-decorate --decorate-refs --decorate-refs-exclude
  --source --log-size --mailmap --use-mailmap --no-mailmap --notes --no-notes --show-notes
  --diff-merges --no-diff-merges --format=format --pretty=format --expand-tabs --no-expand-tabs
git: -Phv --no-pager --no-optional-locks --version --help --literal-pathspecs --glob-pathspecs
  --noglob-pathspecs --icase-pathspecs --no-replace-objects --no-lazy-fetch
git log, git show, git whatchanged, git reflog show, git stash show: @diff @revs @log at *
git diff, git diff-tree, git diff-index, git diff-files: @diff --staged --cached --merge-base
  --base --ours --theirs at -0123 --stdin *repository
git range-diff: @diff --creation-factor --no-dual-color at *
git status: -sbvzu? --short --branch --show-stash --porcelain --long --verbose --untracked-files
  --ignore-submodules --ignored --column --no-column --ahead-behind --no-ahead-behind --renames
  --no-renames --find-renames at *
git shortlog: -snecw? -# @revs --summary --numbered --email --format=format --group at *
git rev-list: @revs @diff --disk-usage --header --quiet --format=format --pretty=format at *
git rev-parse: -q --short --abbrev-ref --symbolic --symbolic-full-name --verify --quiet
  --show-toplevel --show-prefix --show-cdup --git-dir --git-common-dir --absolute-git-dir
  --git-path --is-inside-work-tree --is-inside-git-dir --is-bare-repository
  --is-shallow-repository --show-superproject-working-tree --all --branches --tags --remotes
  --default --revs-only --no-revs --flags --no-flags --show-object-format --path-format --sq-quote
  at *
git show-ref: -dhqs --head --heads --tags --branches --dereference --hash --abbrev --verify
  --quiet --exclude-existing *
git for-each-ref: --count --sort --format --points-at --merged --no-merged --contains
  --no-contains --ignore-case --shell --color *
git blame, git annotate: -bflnstwecpkhCM? -L= -# --root --show-stats --porcelain --line-porcelain
  --date --show-name --show-number --show-email --incremental --abbrev --color-lines
  --color-by-age --since --ignore-rev at *
git grep: -aiwvhHEGFPnlLzcqop -A= -B= -C= -W -m= -e= -# --text --ignore-case --word-regexp
  --invert-match --full-name --extended-regexp --basic-regexp --fixed-strings --perl-regexp
  --line-number --column --files-with-matches --name-only --files-without-match --null --count
  --color --no-color --break --heading --show-function --context --after-context --before-context
  --function-context --and --or --not --all-match --quiet --cached --untracked
  --recurse-submodules --max-depth --max-count --no-recursive --recursive --threads at *repository
git ls-files: -cdmosuktvfz -x= --cached --deleted --modified --others --stage --unmerged --killed
  --directory --no-empty-directory --eol --exclude --exclude-standard --error-unmatch --full-name
  --abbrev --debug --deduplicate --format --recurse-submodules *
git ls-tree: -drtlz --name-only --name-status --object-only --full-name --full-tree --long
  --abbrev --format at *
git cat-file: -tespr --allow-unknown-type --batch-check --batch --batch-all-objects --buffer at *
git merge-base: -a --all --octopus --independent --is-ancestor --fork-point at *
git describe: --all --tags --contains --abbrev --candidates --exact-match --long --match --exclude
  --always --first-parent --dirty --broken at *
git name-rev: --tags --refs --exclude --all --name-only --no-undefined --always at *
git count-objects: -vH --verbose --human-readable
git check-ignore: -qvzn --quiet --verbose --no-index --non-matching *
git check-attr: -az --all --cached *
git var: *name
git cherry: -v --abbrev at *
git show-branch: -ar --all --remotes --current --topo-order --date-order --sparse --more --list
  --no-name --sha1-name --topics --color --no-color at *
git verify-commit, git verify-tag: -v --verbose --raw at *
git fsck: --unreachable --dangling --no-dangling --tags --root --cache --full --strict --verbose
  --progress --no-progress --connectivity-only --name-objects
git branch: -avqrlidDmMcCt? -u= --color --no-color --column --no-column --sort --merged
  --no-merged --contains --no-contains --points-at --format --list --show-current --verbose
  --quiet --abbrev --no-abbrev --track --no-track --set-upstream-to --unset-upstream --delete
  --move --copy --all --remotes --ignore-case --force -f at *
git tag: -ladfn? -m=text -# --list --sort --format --contains --no-contains --merged --no-merged
  --points-at --annotate --message=text --delete --force --column --color --ignore-case
  --create-reflog at *
git add, git stage: -nvfAuNk --dry-run --verbose --force --all --no-all --update --intent-to-add
  --refresh --ignore-errors --ignore-missing --renormalize --chmod --no-ignore-removal
  --ignore-removal --sparse *
git rm: -fnrq --force --dry-run --cached --ignore-unmatch --quiet --sparse *inside
git mv: -fknv --force --dry-run --verbose --sparse *inside
git commit: -avqnsepouio -m=text -C= --all --message=text --amend --no-edit --allow-empty
  --allow-empty-message --quiet --verbose --signoff --no-signoff --no-verify --author --date
  --fixup --squash --reset-author --only --include --dry-run --short --porcelain --long --branch
  --status --no-status --cleanup --trailer --reuse-message --no-gpg-sign --no-post-rewrite at *
git stash: -ukaqS --include-untracked --keep-index --no-keep-index --all --quiet --staged -m=text
  --message=text
git stash push, git stash save: -ukaqS --include-untracked --keep-index --no-keep-index --all
  --quiet --staged -m=text --message=text *
git stash list: @revs @log
git stash pop, git stash apply, git stash drop: -q --quiet --index at *
git checkout: -qbBtdflmp --quiet --force --ours --theirs --track --no-track --guess --no-guess
  --detach --orphan --merge --progress --no-progress --overlay --no-overlay at *
git switch: -qcCdftm --create --force-create --detach --guess --no-guess --discard-changes --merge
  --quiet --track --no-track --orphan --progress --no-progress --force at *
git restore: -s= -WSqmp --source --worktree --staged --quiet --ours --theirs --merge --overlay
  --no-overlay --ignore-unmerged --progress --no-progress at *
git reset: -qNp --soft --mixed --hard --merge --keep --quiet --no-refresh --refresh at *
git clean: -dfnqxX -e= --force --dry-run --quiet --exclude *inside
git merge: -nqve -m=text --ff --no-ff --ff-only --squash --no-squash --commit --no-commit --edit
  --no-edit --stat --no-stat --abort --quit --continue --quiet --verbose
  --allow-unrelated-histories --signoff --no-signoff --autostash --no-autostash --no-verify
  --message=text --progress --no-progress at *
git rebase: -qvifk --continue --abort --skip --quit --onto --interactive --autosquash
  --no-autosquash --autostash --no-autostash --keep-base --root --rebase-merges --no-rebase-merges
  --update-refs --quiet --verbose --force-rebase --no-ff --committer-date-is-author-date
  --no-verify --no-stat --stat --signoff --fork-point --no-fork-point --edit-todo
  --show-current-patch at *
git cherry-pick, git revert: -exnsm= --edit --no-edit --no-commit --mainline --signoff --ff
  --allow-empty --keep-redundant-commits --continue --skip --quit --abort at *
git am: -q --continue --skip --abort --quit --show-current-patch
git apply: -3NRvp= -C= --check --stat --numstat --summary --reverse --cached --index --recount
  --verbose --quiet --whitespace --ignore-whitespace --include --exclude
  needs:--check,--stat,--numstat,--summary *
git fetch: -apqvtnPk46j= --all --append --depth= --deepen= --prune --prune-tags --tags --no-tags
  --quiet --verbose --progress --no-progress --unshallow --shallow-since= --dry-run --jobs= --force
  --multiple --no-recurse-submodules --atomic --ipv4 --ipv6 *remote,ref
git pull: -qvrn46 --quiet --verbose --rebase --no-rebase --ff --ff-only --no-ff --prune --tags
  --no-tags --autostash --no-autostash --progress --depth= --unshallow --all --no-edit --edit
  --stat --no-stat --no-verify --no-recurse-submodules *remote,ref
git push: -nuqvf46 --dry-run --set-upstream --tags --follow-tags --all --branches --force
  --force-with-lease --force-if-includes --delete -d --quiet --verbose --progress --no-progress
  --porcelain --atomic --prune --no-verify --thin --no-thin *remote,ref
git remote: -v --verbose
git remote show: -n *remote
git remote get-url: --all --push *remote
git remote prune: -n --dry-run *remote
git ls-remote: -bhtq --heads --branches --tags --refs --quiet --exit-code --get-url --sort
  --symref *remote,ref
git worktree list: -vz --porcelain --verbose --expire
git worktree prune: -nv --dry-run --verbose --expire
git submodule: --quiet -q --cached
git submodule status: --cached --recursive *inside
git submodule update: -iNfq --init --recursive --no-fetch --force --depth --jobs --single-branch
  --progress *inside
git submodule init: *inside
git submodule summary: --cached --files -n= *
git reflog: @revs @log at *
git reflog exists: at *
git notes list, git notes show: at *
git gc: -q --auto --quiet --no-prune --prune
git help: *name
git init: -q --quiet -b= --initial-branch
git version: --build-options
git bisect log, git bisect view, git bisect good, git bisect bad, git bisect skip, git bisect
  reset, git bisect next, git bisect old, git bisect new: at *
git bisect start: --no-checkout --first-parent at *
git config: -lz --list --get=dotted --get-all=dotted --get-regexp= --show-origin --show-scope
  --local --global --system --null --name-only
git clone: -qnl -b= --quiet --depth= --branch= --single-branch --no-single-branch --no-tags
  --progress --no-checkout --filter= --shallow-since= *http,write
git worktree add: -fdq -b= -B= --force --detach --no-checkout --quiet --lock --track *write,any
git archive: -v9 --format --prefix --list --worktree-attributes --verbose at *
git format-patch: @diff @revs --stdout --cover-letter --signoff -k -o=write
  --output-directory=write --subject-prefix --start-number --numbered --no-numbered at *
git config get, git config list: --all --name-only --null -z --show-origin --show-scope --local
  --global --system --default --type *dotted
git hash-object: -t= --stdin --literally --no-filters *inside
git interpret-trailers: --parse --only-trailers --only-input --unfold --no-divider --trailer=
git stripspace: -sc --strip-comments --comment-lines
git patch-id: --stable --unstable --verbatim
git check-ref-format: --allow-onelevel --branch --normalize *
git rerere: *name
"""
"""Options of git that name no program, file, address or other repository."""
