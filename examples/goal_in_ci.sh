#!/usr/bin/env bash
# A goal as a CI job: no terminal, JSON lines for the log, the exit code decides.
# Nobody is there to be asked, so the mode says what agents may do: a CI machine is thrown away.
# The agents are scripted here. With a key, leave --driver and --script out and name a goal of yours.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export BULLPEN_HOME="${BULLPEN_HOME:-$(mktemp -d)}"
cd "$(mktemp -d)"

code=0
bullpen run "Greet the world" --team ci --driver scripted --script "$here/scripted-team.toml" \
    --mode bypassPermissions --timeout 600 --turns 60 --jsonl >run.jsonl || code=$?

# The last line is the outcome; what each agent did is in its transcript.
tail -n 1 run.jsonl
if [ "$code" -ne 0 ]; then
    # 1: the team failed. 2: it stopped before the end; `bullpen team resume ci` goes on.
    bullpen ps --team ci
    bullpen logs team-lead --team ci -n 40
fi
exit "$code"
