#!/usr/bin/env bash
# Commit the site of this version to the local branch gh-pages:
# bash .github/publish_site.sh branch main, or bash .github/publish_site.sh tag v0.1.0
set -euo pipefail
cd "$(dirname "$0")/.."

mike() { uv run --no-sync mike "$@"; }

if [ "$1" = tag ]; then
    number=${2#v}
    mike deploy --update-aliases "${number%.*}" latest
    mike set-default latest
else
    mike deploy dev
    # Before the first release there is nothing else to show.
    if ! mike list latest >/dev/null 2>&1; then mike set-default dev; fi
fi
