"""Installed packages that exist only for one test."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest


class Packages:
    """A folder on the path of modules, in which packages are installed."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        folder.mkdir()
        monkeypatch.syspath_prepend(str(folder))
        self._monkeypatch = monkeypatch

    def install(self, name: str, source: str, /, **parts: Mapping[str, str]) -> str:
        """Install a package with one module. `parts` names them by kind: drivers={"x": "X"}.

        A version may follow the name.
        """
        package, _, version = name.partition(" ")
        version = version or "1.0"
        module = package.replace("-", "_")
        (self._folder / f"{module}.py").write_text(source, encoding="utf-8")
        self._monkeypatch.delitem(sys.modules, module, raising=False)
        about = self._folder / f"{module}-{version}.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n", encoding="utf-8"
        )
        lines = []
        for kind, named in parts.items():
            lines.append(f"[bullpen.{kind}]")
            lines += [f"{name} = {module}:{target}" for name, target in named.items()]
        (about / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
        return module


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Packages:
    """Where a test installs packages."""
    return Packages(tmp_path / "site-packages", monkeypatch)
