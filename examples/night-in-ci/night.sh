#!/usr/bin/env bash
# What the job does: work until all is done or the time is over, then the report. Its exit code is
# that of the team: 0 all is merged, 1 the team failed, 2 something was given up or is unfinished.
set -euo pipefail
git rev-parse --quiet --verify refs/heads/night >/dev/null || git branch night

# Not in the repository: agents with trees of their own are not started beside changes that nobody
# has committed.
log="${RUNNER_TEMP:-${TMPDIR:-/tmp}}/night.jsonl"
code=0
bullpen up TEAM.toml --until "${UNTIL:-5h}" --json >"$log" || code=$?
bullpen summary --team night --markdown >"${GITHUB_STEP_SUMMARY:-${log%.jsonl}.md}" ||
    echo "There is no report: see $log" >&2
exit "$code"
