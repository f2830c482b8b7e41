#!/usr/bin/env bash
# The tests of this project.
cd "$(dirname "$0")/.." || exit 1
source src/slug.sh || exit 1

failed=0
check() {
    local found
    found=$(slug "$1")
    if [ "$found" != "$2" ]; then
        echo "slug '$1' is '$found' and should be '$2'"
        failed=1
    fi
}

check "Hello World" "hello-world"
check "  More   blanks " "more-blanks"
exit "$failed"
