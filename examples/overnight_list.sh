#!/usr/bin/env bash
# Two workers in parallel empty a task list with dependencies, as a CI job would: no terminal,
# JSON on standard output, exit codes by outcome.
set -euo pipefail
export BULLPEN_HOME="${BULLPEN_HOME:-$(mktemp -d)}"

bullpen team create night --description "Nightly chores" >/dev/null
bullpen member add ann >/dev/null
bullpen member add bob >/dev/null
bullpen task add "Update the dependencies" >/dev/null
bullpen task add "Run the linters" >/dev/null
bullpen task add "Build the package" --blocked-by 1 --blocked-by 2 >/dev/null

work() {
    # A claim without a number takes the next task that is ready; exit code 3 says that none is.
    for _ in $(seq 1 100); do
        if claimed=$(bullpen task claim --as "$1" --json 2>/dev/null); then
            id=$(sed -n 's/^ *"id": *"\([0-9]*\)".*/\1/p' <<<"$claimed" | head -n 1)
            bullpen task done "$id" --as "$1" >/dev/null
        elif ! bullpen task list --json | grep -q '"status": *"\(pending\|in_progress\)"'; then
            return 0
        else
            sleep 0.2
        fi
    done
    return 1
}

work ann & ann=$!
work bob & bob=$!
wait "$ann"
wait "$bob"
bullpen task list
