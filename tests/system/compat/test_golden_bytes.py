"""The files that were recorded from other programs stay as they were recorded."""

from __future__ import annotations

import hashlib

from .stage import HERE

SUMS = HERE / "golden.sha256"


def test_golden_files_are_byte_for_byte_as_before() -> None:
    (oldest,) = (path for path in HERE.parents[1].rglob("golden/2.1.41") if path.is_dir())
    golden = oldest.parent
    found = {
        str(path.relative_to(golden)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in golden.rglob("*")
        if path.is_file() and path.name != "README.md"
    }
    lines = (line.split("  ", 1) for line in SUMS.read_text(encoding="utf-8").splitlines())
    assert found == {name: digest for digest, name in lines}
