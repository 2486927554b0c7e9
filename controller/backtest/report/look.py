"""Style and script of a backtest's report: light and dark, from a phone's width on, no network.

The script sorts the scoreboard and gives the plots the page's colours, again whenever light and dark change.
"""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --paper: #fbfbfa; --raised: #fff; --ink: #1b1f24; --soft: #59626d; --line: #dcdfe3;
  --blue: #2f6db3; --blue-soft: #e3edf8; --orange: #b85c00; --green-soft: #dcebd8; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171a; --raised: #1b1f23; --ink: #e4e7ea; --soft: #9aa4af;
  --line: #333a41; --blue: #7db4ee; --blue-soft: #1d2c3d; --orange: #ffb35c; --green-soft: #223a26; } }
*, ::before, ::after { box-sizing: border-box; }
html { font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; max-width: 84rem; padding: 1rem 1.25rem 4rem; background: var(--paper); color: var(--ink); }
h1, h2, h3, p, ul, dl, dd, pre, figure { margin: 0; }
h1 { font-size: 1rem; font-weight: 600; color: var(--soft); } h2 { font-size: 1.1rem; margin: 2.5rem 0 .5rem; }
h3 { font-size: .95rem; margin-top: .8rem; } p + p, p + ul, p + pre, ul + p, pre + details { margin-top: .6rem; }
.recorded { color: var(--soft); overflow-wrap: anywhere; } ul { padding-left: 1.2rem; }
small { color: var(--soft); font-size: .85em; font-weight: 400; }
code, pre { font: .92em ui-monospace, "SF Mono", Menlo, Consolas, monospace; overflow-wrap: anywhere; }
pre { background: var(--paper); border: 1px solid var(--line); border-radius: 6px; padding: .6rem .8rem;
  overflow-x: auto; }
summary { cursor: pointer; color: var(--blue); } details > :not(summary) { margin-top: .4rem; }
#verdict { background: var(--raised); border: 1px solid var(--line); border-left: 5px solid var(--blue);
  border-radius: 6px; padding: 1rem 1.2rem; margin-top: 1rem; }
#verdict[data-action="nothing"] { border-left-color: var(--orange); }
#verdict > * + * { margin-top: .6rem; }
.do { font-size: 1.5rem; font-weight: 650; line-height: 1.25; overflow-wrap: anywhere; } .effect { font-size: 1.15rem; }
.confidence, .none { color: var(--soft); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: .5rem 1.5rem; }
.tiles dt { color: var(--soft); font-size: .87em; } .plot { min-width: 0; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .5rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
#scoreboard { width: 100%; font-size: .87rem; margin-top: .5rem; }
#scoreboard thead th { font-weight: 500; color: var(--soft); vertical-align: bottom; white-space: normal; }
#scoreboard .group { text-align: left; border-left: 1px solid var(--line); }
#scoreboard .word { text-align: left; position: sticky; left: 0; background: var(--paper); font-weight: 500; }
#scoreboard .mark { border: 1px solid var(--line); border-radius: 4px; padding: 0 .35em; }
#scoreboard tr.front td { background: var(--blue-soft); } #scoreboard tr.recommended td,
#scoreboard tr.recommended th { background: var(--green-soft); font-weight: 600; }
.sort { all: unset; cursor: pointer; } .sort:focus-visible { outline: 2px solid var(--blue); }
[aria-sort="ascending"] .sort::after { content: " ↑"; } [aria-sort="descending"] .sort::after { content: " ↓"; }
#run td { text-align: left; white-space: normal; overflow-wrap: anywhere; } #run td:first-child { color: var(--soft); }
dt { font-weight: 600; } .tiles dt { font-weight: 400; } dd { margin-left: 1.2rem; } .tiles dd { margin: 0; }
@media (max-width: 40rem) { body { padding: .8rem .8rem 3rem; } .do { font-size: 1.25rem; } .effect { font-size: 1rem; }
  dd { margin-left: .6rem; } }
@media print { .sort::after { content: none; } details { display: block; } }
"""
SCRIPT = """
const table = document.querySelector("#scoreboard");
for (const button of table ? table.querySelectorAll(".sort") : []) button.addEventListener("click", () => {
  const head = button.closest("th"), heads = [...table.querySelectorAll("thead .sort")].map(one => one.closest("th"));
  const down = head.getAttribute("aria-sort") === "ascending", at = heads.indexOf(head);
  heads.forEach(one => one.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const key = row => row.cells[at].dataset.value;
  const order = (a, b) => (a === "") - (b === "") || (a === "" ? 0 : (down ? -1 : 1) *
    (isNaN(a) || isNaN(b) ? a.localeCompare(b) : a - b));
  [...table.tBodies[0].rows].sort((a, b) => order(key(a), key(b))).forEach(row => table.tBodies[0].append(row));
});
const dark = matchMedia("(prefers-color-scheme: dark)");
const paint = () => {
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  for (const plot of document.querySelectorAll(".plotly-graph-div")) Plotly.relayout(plot, {
    "font.color": colour("--ink"), "hoverlabel.bgcolor": colour("--raised"),
    "hoverlabel.font.color": colour("--ink"), "hoverlabel.bordercolor": colour("--line"),
  });
};
paint();
dark.addEventListener("change", paint);
"""
