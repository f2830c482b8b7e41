#!/usr/bin/env bash
# PreToolUse: no commit may go round the checks of this repository.
set -euo pipefail

command=$(jq -r '.tool_input.command // ""')

if grep -qE -- '(^|[[:space:]])(--no-verify|-n)([[:space:]]|$)' <<<"$command" &&
    grep -q 'git commit' <<<"$command"; then
    echo "Commits are checked here: leave --no-verify out." >&2
    exit 2
fi
