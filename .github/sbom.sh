#!/usr/bin/env bash
# Write the software bill of materials of the package with all extras: bash .github/sbom.sh FOLDER
# It names what the lock names: the versions that were tested.
set -euo pipefail
cd "$(dirname "$0")/.."

mkdir -p "$1"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
UV_PROJECT_ENVIRONMENT=$scratch/installed \
    uv sync --quiet --frozen --no-dev --extra all --no-editable
uv run --quiet --frozen --isolated --only-group release cyclonedx-py environment \
    "$scratch/installed/bin/python" --pyproject pyproject.toml --output-reproducible \
    --output-file "$1/bullpen.cdx.json"
