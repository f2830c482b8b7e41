"""`bullpen telemetry`: traces, metrics and logs of a team for the tools that watch programs."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated

import typer

from bullpen.cli.command import command
from bullpen.cli.session import Session
from bullpen.errors import Unavailable

if TYPE_CHECKING:
    from bullpen.office import Office
    from bullpen.team.team import Team
    from bullpen.telemetry.observing import Observer


def register(app: typer.Typer) -> None:
    """Make this function a command of `app`."""
    command(
        app,
        "telemetry",
        examples=(
            "bullpen telemetry -t night --otlp http://localhost:4318",
            "bullpen telemetry -t night --otlp http://localhost:4318 --follow",
            "bullpen telemetry -t night --prometheus 9464",
            "bullpen telemetry -t night --logs | jq .op",
        ),
    )(telemetry)


def telemetry(
    session: Session,
    *,
    otlp: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Send traces and metrics to this collector by OTLP over HTTP.",
            show_default=False,
        ),
    ] = None,
    prometheus: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            min=0,
            max=65535,
            help="Serve the metrics on loopback for Prometheus; 0 is any free port.",
            show_default=False,
        ),
    ] = None,
    prometheus_once: Annotated[
        bool, typer.Option("--prometheus-once", help="Print the metrics as Prometheus reads them.")
    ] = False,
    logs: Annotated[
        bool, typer.Option("--logs", help="Print the team's log as JSON lines with ids.")
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="With --otlp and --logs: go on with what comes.")
    ] = False,
    content: Annotated[
        bool,
        typer.Option("--content", help="Also what was written: messages, tool inputs, subjects."),
    ] = False,
) -> None:
    """Give traces, metrics and logs of a team to tools that watch programs.

    They are told from the team's log and from the transcripts on this machine, while the team
    works or later; agents know nothing of it. Sending a run again sends the same spans.
    """
    if sum((otlp is not None, prometheus is not None, prometheus_once, logs)) != 1:
        raise typer.BadParameter("name one of --otlp, --prometheus, --prometheus-once and --logs.")
    if follow and otlp is None and not logs:
        raise typer.BadParameter("--follow goes with --otlp and --logs.")
    if content and otlp is None and not logs:
        raise typer.BadParameter("--content goes with --otlp and --logs; metrics have none.")
    if otlp is not None:
        _need_library()
        _check(otlp)
    if otlp is not None or prometheus is not None:
        session.refuse_agents("send telemetry")

    async def observe(office: Office, name: str) -> None:
        from bullpen.telemetry.observing import Observer

        team = office.teams.open(name)
        observer = Observer(team, office.settings.home, content=content)
        if otlp is not None:
            await _send(session, team, observer, otlp, follow=follow)
        elif prometheus is not None:
            await _serve(session, observer, prometheus)
        elif prometheus_once:
            typer.echo(await _text(observer), nl=False)
        else:
            await _logs(session, team, follow=follow, content=content)

    session.with_office(observe)


def _need_library() -> None:
    """Refuse to go on without the library, which an extra installs. Raises Unavailable."""
    from importlib.util import find_spec

    try:
        # A part of it is installed with other extras.
        found = find_spec("opentelemetry.exporter.otlp.proto.http") and find_spec(
            "opentelemetry.sdk"
        )
    except ModuleNotFoundError:
        found = None
    if found is None:
        raise Unavailable(
            "This needs the exporter of OpenTelemetry, which is not installed.",
            remedy="Run: pip install 'bullpen[otel]'",
        )


def _check(url: str) -> None:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if not sound:
        raise typer.BadParameter(f"{url!r} is no address such as http://localhost:4318.")


async def _send(
    session: Session, team: Team, observer: Observer, url: str, *, follow: bool
) -> None:
    from bullpen.telemetry.otlp import Otlp
    from bullpen.telemetry.sending import keep_sending, send_once

    otlp = Otlp(url)
    try:
        if follow:
            session.page.result(
                {"url": otlp.url, "team": team.name},
                f"Sending what team {team.name} does to {otlp.url} until Ctrl-C.",
            )
            session.page.flush()
            await keep_sending(team, observer, otlp, warn=session.page.warn)
            return
        count = await send_once(observer, otlp)
    finally:
        otlp.close()
    trace = observer.trace.trace_id
    session.page.result(
        {"url": otlp.url, "team": team.name, "spans": count, "trace": trace},
        f"Sent {count} spans and the metrics of team {team.name} to {otlp.url}.",
        f"The trace is {trace}.",
    )


async def _serve(session: Session, observer: Observer, port: int) -> None:
    from anyio import Lock

    from bullpen.telemetry.prometheus import serve

    # Two who ask at once must not both tell what is new.
    lock = Lock()

    async def text() -> str:
        async with lock:
            return await _text(observer)

    def ready(url: str) -> None:
        session.page.result({"url": url}, f"Metrics are at {url}")
        session.page.flush()

    await text()
    await serve(port, text, ready=ready)


async def _text(observer: Observer) -> str:
    from bullpen.telemetry.prometheus import prometheus_text

    await observer.read_on()
    return prometheus_text(await observer.metrics(), team=observer.trace.team)


async def _logs(session: Session, team: Team, *, follow: bool, content: bool) -> None:
    from bullpen.telemetry.logs import log_rows
    from bullpen.telemetry.spans import Trace

    trace = Trace(content=content)
    if not follow:
        for row in log_rows(await team.events(), trace, content=content):
            session.page.json_line(row)
        return
    async with aclosing(team.follow_events()) as batches:
        async for batch in batches:
            for row in log_rows(batch, trace, content=content):
                session.page.json_line(row)
