"""Refuse a command whose packages, which an extra installs, are missing."""

from __future__ import annotations

from importlib.util import find_spec

from bullpen.errors import Unavailable

_EXTRA_OF = {
    "acp": "acp",
    "cryptography": "nats",
    "jinja2": "web",
    "mcp": "mcp",
    "nats": "nats",
    "nkeys": "nats",
    "opentelemetry": "otel",
    "pydantic_ai": "native",
    "starlette": "web",
    "textual": "tui",
    "uvicorn": "web",
}
"""The extra that installs a package, by the name that the package is imported by."""


def need_extra(extra: str, *packages: str) -> None:
    """Refuse to go on without the packages of an extra. Raises Unavailable."""
    missing = [name for name in packages if not _is_installed(name)]
    if missing:
        raise _refusal(missing, extra)


def without_extra(error: ModuleNotFoundError) -> Unavailable | None:
    """The refusal that names the extra of a module that an import did not find."""
    package = (error.name or "").partition(".")[0]
    extra = _EXTRA_OF.get(package)
    return _refusal([package], extra) if extra is not None else None


def _refusal(missing: list[str], extra: str) -> Unavailable:
    return Unavailable(
        f"Packages are not installed: {', '.join(missing)}.",
        remedy=f"Run: pip install 'bullpen[{extra}]'",
    )


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        # The package around it is not installed.
        return False
