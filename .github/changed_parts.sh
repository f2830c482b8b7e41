#!/usr/bin/env bash
# Say which parts of the tests a change needs besides the gate: changed paths in, NAME=true|false out.
# git diff --name-only HEAD^1 HEAD | bash .github/changed_parts.sh
set -euo pipefail

pages=false
programs=false
while IFS= read -r path; do
    case $path in
        # What all parts are installed and run with.
        .ci/* | .github/* | pyproject.toml | uv.lock | tests/conftest.py | tests/support/*)
            pages=true
            programs=true
            ;;
        docs/* | examples/* | tests/docs/* | README.md | CHANGELOG.md | mkdocs.yml)
            pages=true
            ;;
        src/bullpen/doors/mcp/* | src/bullpen/doors/acp/*)
            pages=true
            programs=true
            ;;
        src/bullpen/doors/*)
            pages=true
            ;;
        src/bullpen/agents/drivers/* | src/bullpen/agents/system/vendors/* | tests/programs/*)
            programs=true
            ;;
    esac
done
echo "pages=$pages"
echo "programs=$programs"
