#!/usr/bin/env bash
# What the job does: work on issues until all are done or the time is over, then the report. Its exit
# code is that of the team: 0 all is merged, 1 the team failed, 2 something is left for the next run.
set -euo pipefail
used=0
if bullpen team show issues >/dev/null 2>&1; then
    used=$(bullpen cost --team issues --json | jq .total.costUsd)
elif git for-each-ref refs/remotes/origin/bullpen/issues | grep .; then
    # Without its records, the team would do the same issues again.
    echo "The records of these branches are lost. Bring them back, or close the pull requests and" \
        "delete the branches." >&2
    exit 1
fi

# The budget of the file is for all runs; this one may use so much more. Agents with trees of their
# own are not started beside files that git does not know, so that git is told of this one.
file=TEAM.toml
if [[ -n ${BUDGET_USD:-} ]]; then
    file=.issues-run.toml
    usd=$(jq --null-input --argjson used "$used" --argjson more "$BUDGET_USD" '$used + $more')
    sed "s/^usd = .*/usd = $usd/" TEAM.toml >"$file"
    echo "/$file" >>"$(git rev-parse --git-path info/exclude)"
fi

# The runner obeys lines of the output that begin with two colons; titles of issues are in there.
stop=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
code=0
echo "::stop-commands::$stop"
bullpen up "$file" --until "${UNTIL:-5h}" --plain || code=$?
echo "::$stop::"
bullpen summary --team issues --markdown >>"${GITHUB_STEP_SUMMARY:-/dev/null}" ||
    echo "There is no report." >&2
exit "$code"
