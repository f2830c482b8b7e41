"""Build Gitea from its Go module: python tests/support/forge/gitea_build.py [--pages]

It is cached in `$BULLPEN_TESTS_CACHE`, by default ~/.cache/bullpen-tests, in a folder per version;
what is there already is left alone. `--pages` also builds the front end, so that a browser can show
its pages. Needs Go and a C compiler; the pages need npm. The first build takes about ten minutes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

MODULE = "code.gitea.io/gitea"
# Later versions name modules that Go's proxy does not have.
VERSION = os.environ.get("BULLPEN_GITEA", "1.26.0")
TAGS = "sqlite sqlite_unlock_notify"
# Its front end wants newer ones than most systems have.
FRONT_END_TOOLS = ("node@22.23.3", "pnpm@10.33.0")


class NotBuilt(Exception):
    """Why there is no Gitea."""


def folder(version: str = VERSION) -> Path:
    """Return the folder of one version in the cache."""
    cache = os.environ.get("BULLPEN_TESTS_CACHE")
    return (Path(cache) if cache else Path.home() / ".cache" / "bullpen-tests") / f"gitea-{version}"


def program(version: str = VERSION) -> Path:
    """Return the program, whether it is built or not."""
    return folder(version) / "gitea"


def source(version: str = VERSION) -> Path:
    """Return its source. The program reads its templates, locales and pages from there."""
    return folder(version) / "source"


def has_pages(version: str = VERSION) -> bool:
    """Return whether its front end is built too."""
    return (source(version) / "public" / "assets" / ".vite" / "manifest.json").exists()


def missing(version: str = VERSION) -> str | None:
    """Return why tests with Gitea have to be skipped; None if it is built."""
    if program(version).exists():
        return None
    if shutil.which("go") is None:
        return f"Gitea {version} is not built, and there is no Go to build it with"
    return f"Gitea {version} is not built: run python tests/support/forge/gitea_build.py"


def build(version: str = VERSION) -> None:
    """Build the program, unless it is there."""
    if program(version).exists():
        print(f"gitea {version} is built")
        return
    for tool in ("go", "gcc"):
        if shutil.which(tool) is None:
            raise NotBuilt(f"There is no {tool} to build Gitea with.")
    begun = time.monotonic()
    folder(version).mkdir(parents=True, exist_ok=True)
    copy_source(version)
    built = program(version).with_name(f"gitea.{os.getpid()}")
    flags = f'-s -w -X "main.Version={version}" -X "main.Tags={TAGS}"'
    run(
        ["go", "build", "-trimpath", "-tags", TAGS, "-ldflags", flags, "-o", str(built), "."],
        cwd=source(version),
        env={
            "GOFLAGS": "-mod=mod -buildvcs=false",
            "CGO_ENABLED": "1",
            "CGO_CFLAGS": "-O2 -DSQLITE_MAX_VARIABLE_NUMBER=32766",
        },
    )
    # Whoever sees the program sees a whole one.
    built.rename(program(version))
    print(f"gitea {version} built in {time.monotonic() - begun:.0f} s", flush=True)


def copy_source(version: str) -> None:
    """Copy the module out of Go's cache, where nothing can be written."""
    if source(version).exists():
        return
    asked = f"{MODULE}@v{version}"
    answer = run(["go", "mod", "download", "-json", asked], cwd=folder(version))
    place = Path(json.loads(answer)["Dir"])
    part = source(version).with_name(f"source.{os.getpid()}")
    shutil.copytree(place, part)
    for path in (part, *part.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)
    part.rename(source(version))


def build_pages(version: str = VERSION) -> None:
    """Build what a browser loads, unless it is there."""
    if has_pages(version):
        print(f"the pages of gitea {version} are built")
        return
    if shutil.which("npm") is None:
        raise NotBuilt("There is no npm to build Gitea's pages with.")
    begun = time.monotonic()
    tools = folder(version) / "front-end-tools"
    quiet = ("--no-fund", "--no-audit", "--no-update-notifier", "--loglevel=error")
    run(["npm", "install", "--prefix", str(tools), *quiet, *FRONT_END_TOOLS], cwd=folder(version))
    binaries = tools / "node_modules" / ".bin"
    env = {
        "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
        "CI": "1",
        "npm_config_manage_package_manager_versions": "false",
    }
    pnpm = str(binaries / "pnpm")
    run([pnpm, "install", "--frozen-lockfile"], cwd=source(version), env=env)
    run([pnpm, "exec", "vite", "build"], cwd=source(version), env=env)
    print(f"pages of gitea {version} built in {time.monotonic() - begun:.0f} s", flush=True)


def run(command: list[str], *, cwd: Path, env: dict[str, str] | None = None) -> str:
    """Run a command; raise NotBuilt with the end of what it said if it fails."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        check=False,
        text=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    if done.returncode:
        said = "\n".join((done.stdout + done.stderr).splitlines()[-20:])
        raise NotBuilt(f"{' '.join(command[:3])} failed:\n{said}")
    return done.stdout


def main(arguments: list[str]) -> int:
    """Build what is asked for; 1 with the reason if that fails."""
    if unknown := [argument for argument in arguments if argument != "--pages"]:
        print(f"unknown argument: {unknown[0]}", file=sys.stderr)
        return 2
    try:
        build()
        if "--pages" in arguments:
            build_pages()
    except NotBuilt as why:
        print(why, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
