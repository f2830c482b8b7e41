"""The style sheet of a report: light and dark, on a phone, on paper."""

from bullpen.view.drawings.style import STYLE as DRAWINGS

STYLE = (
    """\
:root { color-scheme: light dark;
  --text: #1b1f24; --muted: #57606a; --page: #ffffff; --panel: #f6f8fa; --hair: #d0d7de;
  --line: #8c959f; --good: #1a7f37; --bad: #cf222e; --attention: #9a6700; --new: #0969da;
  --critical: #bc4c00; --quiet: #8c959f; --ended: #6e7781; --focus: #0969da; }
@media (prefers-color-scheme: dark) { :root {
  --text: #e6edf3; --muted: #9ba5b0; --page: #0d1117; --panel: #161b22; --hair: #30363d;
  --line: #6e7681; --good: #3fb950; --bad: #ff7b72; --attention: #d29922; --new: #58a6ff;
  --critical: #f0883e; --quiet: #6e7681; --ended: #8b949e; --focus: #58a6ff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 68rem; padding: 1rem 1.25rem 4rem; background: var(--page);
  color: var(--text); font: 15px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0.6rem 0 0.4rem; }
h2 { font-size: 1.2rem; margin: 2.4rem 0 0.6rem; padding-bottom: 0.3rem;
  border-bottom: 1px solid var(--hair); }
h3 { font-size: 1rem; margin: 1.4rem 0 0.4rem; }
a { color: var(--new); }
a:focus-visible, summary:focus-visible, .scroll:focus-visible { outline: 2px solid var(--focus);
  outline-offset: 2px; }
nav ul { display: flex; flex-wrap: wrap; gap: 0.2rem 1rem; list-style: none; padding: 0;
  margin: 0.8rem 0; }
.kicker, .none, footer { color: var(--muted); }
.kicker { margin: 0; }
.goal, .result, .text { white-space: pre-wrap; }
.result { background: var(--panel); border-left: 4px solid var(--good); border-radius: 4px;
  padding: 0.7rem 1rem; margin: 0.8rem 0; }
.needs { background: var(--panel); border-left: 4px solid var(--attention); border-radius: 4px;
  padding: 0.7rem 1rem; margin: 0.8rem 0; }
.needs p, .needs ul { margin: 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.25rem 1.2rem; margin: 1rem 0; }
dt { color: var(--muted); }
dd { margin: 0; }
.scroll { overflow-x: auto; margin: 0.6rem 0; }
table { border-collapse: collapse; width: 100%; font-size: 0.92rem; }
th, td { text-align: left; vertical-align: top; padding: 0.35rem 0.7rem 0.35rem 0;
  border-bottom: 1px solid var(--hair); overflow-wrap: normal; }
td { min-width: 3.5rem; max-width: 28rem; overflow-wrap: break-word; }
th { color: var(--muted); font-weight: 600; white-space: nowrap; }
td.wide { min-width: 14rem; }
.state { white-space: nowrap; }
.state::before { content: ""; display: inline-block; width: 0.6em; height: 0.6em;
  border-radius: 50%; background: var(--state, var(--quiet)); margin-right: 0.45em; }
.is-done, .is-merged { --state: var(--good); }
.is-given_up { --state: var(--bad); }
.is-queued, .is-unproven { --state: var(--attention); }
.is-in_progress { --state: var(--new); }
details { margin: 0.2rem 0; }
summary { cursor: pointer; color: var(--muted); }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: var(--panel);
  border-radius: 4px; padding: 0.6rem 0.8rem; margin: 0.4rem 0;
  font: 0.87rem/1.45 ui-monospace, monospace; }
ol.said { list-style: none; padding: 0; }
ol.said > li { margin: 0.6rem 0; padding: 0.5rem 0.9rem; border-left: 3px solid var(--hair); }
ol.said > li.notices { border-left-color: transparent; padding-block: 0; margin: 0.2rem 0; }
.said header { color: var(--muted); font-size: 0.88rem; }
.said header b { color: var(--text); }
time { font-variant-numeric: tabular-nums; white-space: nowrap; }
footer { margin-top: 3rem; font-size: 0.85rem; }
@media (max-width: 40rem) { body { padding: 0.6rem 0.8rem 3rem; }
  dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: 0.5rem; } }
@media print { nav { display: none; } body { max-width: none; font-size: 11pt; padding: 0; }
  .scroll { overflow: visible; } .drawing { max-width: 100%; height: auto; }
  .drawing-gantt, .drawing-spend { min-width: 0; }
  h2, h3 { break-after: avoid; } tr, li, figure { break-inside: avoid; } }
figure { margin: 0.6rem 0; }
figcaption { color: var(--muted); font-size: 0.88rem; }
"""
    + DRAWINGS
)
