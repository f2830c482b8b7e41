"""The tables of an eval's report as plain text, for HTML and for Markdown. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from bullpen.doors.report.tables import ReportTable
from bullpen.runs.eval.eval_report import EvalReport
from bullpen.runs.eval.results import TrialRecord
from bullpen.runs.eval.statistics import ArmFigures, Comparison
from bullpen.view.agent_words import count, duration

NONE = "-"


def facts(report: EvalReport) -> Iterator[tuple[str, str]]:
    """Facts about the whole eval, as names and values."""
    yield "Suite", f"{report.suite} ({len(report.tasks)} tasks, digest {report.suite_digest})"
    yield "Agents", report.driver + (f", {report.model}" if report.model else "")
    yield "Repeated", f"{report.repeat} times" if report.repeat != 1 else "once"
    if report.budget_usd is not None:
        each = f", at most {money(report.trial_usd)} per trial" if report.trial_usd else ""
        yield "Budget", f"{money(report.budget_usd)}{each}, the same for every arm with agents"
    if report.spent_usd:
        yield "Paid", f"{money(report.spent_usd)}, also for trials without a verdict"
    if report.parts:
        yield "Parts", ", ".join(report.parts)
    if report.hosts:
        yield (
            "Hosts",
            ", ".join(f"{host or NONE} ({trials(n)})" for host, n in report.hosts.items()),
        )
    if report.missing:
        yield "Missing", f"{report.missing} trials have no verdict yet: these numbers may change"


def arms(report: EvalReport) -> ReportTable:
    """What each arm did."""
    columns = (
        *("arm", "passed", "rate", "95 % interval", "money per accepted", "time per accepted"),
        *("coordination", "conflicts", "questions", "money", "tokens", "errors"),
    )
    return ReportTable("Arms", columns, [_arm(each) for each in report.arms])


def _arm(arm: ArmFigures) -> tuple[str, ...]:
    rate, seconds = arm.rate, arm.seconds_per_accepted
    share = arm.coordination_share
    return (
        arm.arm,
        f"{arm.passed} of {arm.trials}",
        NONE if rate is None else f"{rate.value:.0%}",
        interval(arm),
        money(arm.usd_per_accepted, unpriced=arm.unpriced),
        NONE if seconds is None else duration(seconds),
        NONE if share is None else f"{share:.0%}",
        str(arm.conflicts),
        str(arm.questions),
        money(arm.usd, unpriced=arm.unpriced),
        count(arm.tokens),
        str(arm.errors) if arm.errors else "",
    )


def interval(arm: ArmFigures) -> str:
    """Between what the pass rate of an arm lies."""
    return NONE if arm.rate is None else f"{arm.rate.low:.1%} to {arm.rate.high:.1%}"


def comparisons(report: EvalReport) -> ReportTable:
    """Each pair of arms, task by task."""
    columns = ("arms", "first passes more", "second passes more", "even", "p", "result")
    rows = [
        (
            f"{each.first} / {each.second}",
            tasks(each.first_only),
            tasks(each.second_only),
            tasks(each.even),
            f"{each.p_value:.3f}",
            verdict(each),
        )
        for each in report.comparisons
    ]
    return ReportTable("Comparisons", columns, rows)


def verdict(pair: Comparison) -> str:
    """What the comparison of two arms says."""
    if pair.better is None:
        return "no difference that is sure"
    return f"{pair.better} passes more"


def by_task(report: EvalReport) -> ReportTable:
    """How often each arm passed on each task."""
    columns = ("task", *(arm.arm for arm in report.arms))
    rows = [(task, *(_of_task(arm, task) for arm in report.arms)) for task in report.tasks]
    return ReportTable("Tasks", columns, rows)


def _of_task(arm: ArmFigures, task: str) -> str:
    passed, trials = arm.by_task.get(task, (0, 0))
    return f"{passed} of {trials}" if trials else NONE


def not_passed(report: EvalReport) -> ReportTable:
    """The trials that did not pass, and why."""
    columns = ("task", "arm", "no.", "host", "verdict", "why")
    rows = [
        (each.task, each.arm, str(each.number), _host(each, report), each.verdict, each.why)
        for each in report.records
        if each.verdict != "passed"
    ]
    return ReportTable("Trials that did not pass", columns, rows)


def put_back(report: EvalReport) -> ReportTable:
    """The trials that changed files which decide how tests run."""
    columns = ("task", "arm", "no.", "host", "files")
    rows = [
        (each.task, each.arm, str(each.number), _host(each, report), ", ".join(each.put_back))
        for each in report.records
        if each.put_back
    ]
    return ReportTable("Changes to how tests run, put back before the verdict", columns, rows)


def _host(record: TrialRecord, report: EvalReport) -> str:
    """The host of a trial; nothing if all ran on the same one, so that there is no such column."""
    return record.host if len(report.hosts) > 1 else ""


def all_tables(report: EvalReport) -> list[ReportTable]:
    """All tables that have rows."""
    made = [arms(report), comparisons(report), by_task(report), not_passed(report)]
    return [each for each in (*made, put_back(report)) if each.rows]


def money(usd: float | None, *, unpriced: int = 0) -> str:
    """An amount of money; a `+` says that the price of some requests is not known."""
    if usd is None:
        return NONE
    return f"${usd:.2f}{'+' if unpriced else ''}"


def tasks(number: int) -> str:
    """A number of tasks."""
    return "1 task" if number == 1 else f"{number} tasks"


def trials(number: int) -> str:
    """A number of trials."""
    return "1 trial" if number == 1 else f"{number} trials"
