#!/usr/bin/env bash
# TeammateIdle: nobody goes home with work that is not committed.
who=$(jq -r '.teammate_name')
cd "$CLAUDE_PROJECT_DIR" || exit 1

if [ -n "$(git status --porcelain)" ]; then
    echo "$who, commit your work before you rest: git status shows changes." >&2
    exit 2
fi
