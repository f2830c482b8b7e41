"""`bullpen telemetry`: traces, metrics and logs of a team for the tools that watch programs."""

from __future__ import annotations

from contextlib import aclosing
from typing import Annotated
from urllib.parse import urlsplit

import typer
from anyio import Lock

from bullpen.app.app import App
from bullpen.by_name import load
from bullpen.doors.cli.app_session import with_app
from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options.option import flag, option
from bullpen.doors.cli.screens.extras import need_extra
from bullpen.doors.cli.session import Session
from bullpen.doors.telemetry.logs import log_rows
from bullpen.doors.telemetry.observed_team import Observer
from bullpen.doors.telemetry.prometheus import prometheus_text, serve
from bullpen.doors.telemetry.spans import Trace
from bullpen.team.team import Team


@examples(
    "bullpen telemetry -t night --otlp http://localhost:4318",
    "bullpen telemetry -t night --otlp http://localhost:4318 --follow",
    "bullpen telemetry -t night --prometheus 9464",
    "bullpen telemetry -t night --logs | jq .op",
)
def telemetry(
    session: Session,
    *,
    otlp: Annotated[
        str | None, option("Send traces and metrics to this collector (OTLP over HTTP)", "URL")
    ] = None,
    prometheus: Annotated[
        int | None,
        option(
            "Serve metrics on loopback for Prometheus; 0 for any free port",
            "PORT",
            min=0,
            max=65535,
        ),
    ] = None,
    prometheus_once: Annotated[
        bool, flag("Print the metrics in Prometheus format", "--prometheus-once")
    ] = False,
    logs: Annotated[
        bool, flag("Print the team's log as JSON lines with trace ids", "--logs")
    ] = False,
    follow: Annotated[
        bool, flag("With --otlp or --logs: keep sending new data", "--follow")
    ] = False,
    content: Annotated[
        bool, flag("Include content: messages, tool inputs, subjects", "--content")
    ] = False,
) -> None:
    """Export traces, metrics and logs of a team.

    Everything is made from the team's log and from the transcripts on this machine, during a run or
    after it. Exporting a run again sends the same spans.
    """
    if sum((otlp is not None, prometheus is not None, prometheus_once, logs)) != 1:
        raise typer.BadParameter("pass one of --otlp, --prometheus, --prometheus-once and --logs.")
    if follow and otlp is None and not logs:
        raise typer.BadParameter("--follow needs --otlp or --logs.")
    if content and otlp is None and not logs:
        raise typer.BadParameter("--content needs --otlp or --logs.")
    if logs:
        session.goes_on("--logs")
    if otlp is not None:
        # Other extras install a part of it.
        need_extra("otel", "opentelemetry.exporter.otlp.proto.http", "opentelemetry.sdk")
        _check(otlp)

    async def observe(app: App, name: str) -> None:
        team = app.teams.open(name)
        observer = Observer(team, app.settings.home, content=content)
        if otlp is not None:
            await _send(session, team, observer, otlp, follow=follow)
        elif prometheus is not None:
            await _serve(session, observer, prometheus)
        elif prometheus_once:
            text = await _text(observer)
            if session.json:
                session.page.value("metrics/1", {"text": text})
            else:
                typer.echo(text, nl=False)
        else:
            await _logs(session, team, follow=follow, content=content)

    with_app(session, observe)


def _check(url: str) -> None:
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if not sound:
        raise typer.BadParameter(f"{url!r} is not a URL such as http://localhost:4318.")


async def _send(
    session: Session, team: Team, observer: Observer, url: str, *, follow: bool
) -> None:
    otlp = load("bullpen.doors.telemetry.otlp:Otlp")(url)
    try:
        if follow:
            session.page.result(
                "telemetry-sending/1",
                {"url": otlp.url, "team": team.name},
                f"Sending telemetry of team {team.name} to {otlp.url}. Press Ctrl-C to stop.",
            )
            session.page.flush()
            await load("bullpen.doors.telemetry.export:keep_sending")(
                team, observer, otlp, warn=session.page.warn
            )
            return
        count = await load("bullpen.doors.telemetry.export:send_once")(observer, otlp)
    finally:
        otlp.close()
    trace = observer.trace.trace_id
    session.page.result(
        "telemetry-sent/1",
        {"url": otlp.url, "team": team.name, "spans": count, "trace": trace},
        f"Sent {count} spans and the metrics of team {team.name} to {otlp.url}.",
        f"Trace: {trace}",
    )


async def _serve(session: Session, observer: Observer, port: int) -> None:
    # Two scrapes at once must not both read the new events.
    lock = Lock()

    async def text() -> str:
        async with lock:
            return await _text(observer)

    def ready(url: str) -> None:
        session.page.result("listening/1", {"url": url}, f"Metrics are at {url}")
        session.page.flush()

    await text()
    await serve(port, text, ready=ready)


async def _text(observer: Observer) -> str:
    await observer.read_on()
    return prometheus_text(await observer.metrics(), team=observer.trace.team)


async def _logs(session: Session, team: Team, *, follow: bool, content: bool) -> None:
    trace = Trace(content=content)
    if not follow:
        for row in log_rows(await team.events(), trace, content=content):
            session.page.json_line("log/1", row)
        return
    async with aclosing(team.follow_events()) as batches:
        async for batch in batches:
            for row in log_rows(batch, trace, content=content):
                session.page.json_line("log/1", row)
