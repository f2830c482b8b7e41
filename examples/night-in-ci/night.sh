#!/usr/bin/env bash
# What the job does: work until all is done or the time is over, then the report. Its exit code is
# that of the team: 0 all is merged, 1 the team failed, 2 something was given up or is unfinished.
set -euo pipefail
if ! git rev-parse --quiet --verify refs/heads/night >/dev/null; then
    if git rev-parse --quiet --verify refs/remotes/origin/night >/dev/null; then
        # A fresh clone, as in CI: go on where the last night ended, with what is new on this branch.
        day=$(git rev-parse HEAD)
        git switch --quiet night
        if ! git merge-base --is-ancestor "$day" night; then
            git merge --quiet --no-ff --no-commit "$day" >/dev/null || true
            # The list is that of the day, with the boxes that are ticked in the night's: both sides
            # change lines that touch. A conflict in any other file ends the job here.
            awk 'NR == FNR { if (sub(/\[x\]/, "[ ]")) done[$0]; next }
                 $0 in done { sub(/\[ \]/, "[x]") } 1' \
                <(git show night:BACKLOG.md) <(git show "$day:BACKLOG.md") >BACKLOG.md
            git add BACKLOG.md
            git commit --quiet --no-edit
        fi
    else
        git branch night
    fi
fi

# Not in the repository: agents with trees of their own are not started beside changes that nobody
# has committed.
log="${RUNNER_TEMP:-${TMPDIR:-/tmp}}/night.jsonl"
code=0
bullpen up TEAM.toml --until "${UNTIL:-5h}" --jsonl >"$log" || code=$?
bullpen summary --team night --markdown >"${GITHUB_STEP_SUMMARY:-${log%.jsonl}.md}" ||
    echo "There is no report: see $log" >&2
exit "$code"
