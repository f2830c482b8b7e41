#!/usr/bin/env bash
# TaskCompleted: a task is done when the tests say so.
input=$(cat)
subject=$(jq -r '.task_subject' <<<"$input")

if ! output=$(cd "$CLAUDE_PROJECT_DIR" && bash tests/run.sh 2>&1); then
    printf 'The tests fail, so "%s" is not done:\n%s\n' "$subject" "$output" >&2
    exit 2
fi
