#!/usr/bin/env bash
# PostToolUse: no blanks at the end of a line, whoever wrote the file.
set -euo pipefail

file=$(jq -r '.tool_input.file_path // .tool_response.filePath // ""')
cd "$CLAUDE_PROJECT_DIR"

case "$file" in
    *.sh | *.md) sed -i.bak -e 's/[[:blank:]]*$//' "$file" && rm -f "$file.bak" ;;
esac
