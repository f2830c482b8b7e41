"""Plots of an eval as SVG without scripts: pass rates with intervals, and money per arm. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from bullpen.doors.report.evals.eval_tables import interval, money
from bullpen.runs.eval.statistics import ArmFigures

_LEFT, _WIDTH, _RIGHT, _ROW, _TOP = 120, 460, 150, 34, 12


def rates_svg(arms: Sequence[ArmFigures]) -> str:
    """Pass rates: a dot with its interval for each arm, from 0 to 100 %."""
    height = _TOP + _ROW * len(arms) + 24
    parts = [_open(height, "Pass rate of each arm with its 95 % interval")]
    for at in range(0, 101, 25):
        x, bottom = _LEFT + _WIDTH * at / 100, height - 22
        grid = f'<line class="grid" x1="{x:g}" y1="{_TOP}" x2="{x:g}" y2="{bottom}"/>'
        parts += [grid, f'<text class="axis" x="{x:g}" y="{height - 6}">{at} %</text>']
    for row, arm in enumerate(arms):
        y = _TOP + _ROW * row + _ROW / 2
        parts.append(_name(arm.arm, y))
        if arm.rate is None:
            parts.append(f'<text x="{_LEFT + 6}" y="{y + 4:g}">no trial yet</text>')
            continue
        low, value, high = (
            _LEFT + _WIDTH * each for each in (arm.rate.low, arm.rate.value, arm.rate.high)
        )
        parts.append(f'<line class="reach" x1="{low:g}" y1="{y:g}" x2="{high:g}" y2="{y:g}"/>')
        parts += [_end(x, y) for x in (low, high)]
        parts.append(f'<circle class="dot" cx="{value:g}" cy="{y:g}" r="5"/>')
        parts.append(_note(f"{arm.rate.value:.0%} ({interval(arm)})", y))
    return "".join([*parts, "</svg>"])


def money_svg(arms: Sequence[ArmFigures]) -> str:
    """Money of each arm: the whole bar, with the share of coordination darker."""
    height = _TOP + _ROW * len(arms) + 6
    most = max((arm.usd for arm in arms), default=0.0)
    parts = [_open(height, "Money that each arm used; the darker part is coordination")]
    for row, arm in enumerate(arms):
        y = _TOP + _ROW * row + _ROW / 2
        width = _WIDTH * arm.usd / most if most else 0.0
        parts.append(_name(arm.arm, y))
        parts.append(_bar("bar", y, width))
        parts.append(_bar("part", y, width * (arm.coordination_share or 0.0)))
        accepted = money(arm.usd_per_accepted, unpriced=arm.unpriced)
        parts.append(_note(f"{money(arm.usd, unpriced=arm.unpriced)}; {accepted} each", y))
    return "".join([*parts, "</svg>"])


def _open(height: float, title: str) -> str:
    width = _LEFT + _WIDTH + _RIGHT
    return (
        f'<svg class="plot" role="img" viewBox="0 0 {width} {height:g}" width="100%"'
        f' xmlns="http://www.w3.org/2000/svg"><title>{escape(title)}</title>'
    )


def _end(x: float, y: float) -> str:
    return f'<line class="reach" x1="{x:g}" y1="{y - 5:g}" x2="{x:g}" y2="{y + 5:g}"/>'


def _name(text: str, y: float) -> str:
    return f'<text class="name" x="{_LEFT - 10}" y="{y + 4:g}">{escape(text)}</text>'


def _note(text: str, y: float) -> str:
    return f'<text class="note" x="{_LEFT + _WIDTH + 8}" y="{y + 4:g}">{escape(text)}</text>'


def _bar(kind: str, y: float, width: float) -> str:
    return f'<rect class="{kind}" x="{_LEFT}" y="{y - 8:g}" width="{width:g}" height="16"/>'


STYLE = """\
.plot { max-width: 46rem; margin: 0.6rem 0; }
.plot text { fill: var(--text); font: 12px system-ui, sans-serif; }
.plot .name { text-anchor: end; }
.plot .axis { text-anchor: middle; fill: var(--muted); }
.plot .note { fill: var(--muted); font-size: 10px; }
.plot .grid { stroke: var(--hair); }
.plot .reach { stroke: var(--new); stroke-width: 2; }
.plot .dot { fill: var(--new); }
.plot .bar { fill: var(--hair); }
.plot .part { fill: var(--line); }
"""
