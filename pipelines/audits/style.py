"""How an audit's page looks, by day and by night."""

STYLE = """
:root {
  color-scheme: light dark;
  --page: #f5f6f8; --card: #fff; --text: #1c2128; --soft: #636c78; --line: #e3e6ea; --bar: #3b74d9;
  --bad: #b3261e; --bad-soft: #fbeae9; --good: #1b7f47; --good-soft: #e6f4ec; --note: #8a5b00; --note-soft: #fbf2df;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #101419; --card: #181d24; --text: #e4e8ee; --soft: #949eac; --line: #2b323c; --bar: #6ea3ff;
    --bad: #ff8a80; --bad-soft: #3a1f1e; --good: #5fd08f; --good-soft: #15301f; --note: #e9b949; --note-soft: #33290f;
  }
}
* { box-sizing: border-box }
body { margin: 0; background: var(--page); color: var(--text); font: 15px/1.5 system-ui, sans-serif }
main { max-width: 1160px; margin: 0 auto; padding: 28px 20px 48px }
h1 { font-size: 24px; margin: 0; overflow-wrap: anywhere }
h2 { font-size: 16px; margin: 0 0 10px }
p { margin: 4px 0 }
.soft { color: var(--soft) }
.verdict { display: inline-block; margin: 14px 0 4px; padding: 6px 14px; border-radius: 999px; font-weight: 600 }
.verdict.good { background: var(--good-soft); color: var(--good) }
.verdict.bad { background: var(--bad-soft); color: var(--bad) }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin: 18px 0 }
.figures div, section { background: var(--card); border: 1px solid var(--line); border-radius: 10px }
.figures div, section { padding: 14px 16px }
.figures b { display: block; font-size: 21px; font-variant-numeric: tabular-nums }
.figures span { color: var(--soft); font-size: 13px }
section { margin: 0 0 12px; min-width: 0 }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 480px), 1fr)); gap: 12px }
.plots { margin-bottom: 12px }
.plots section { margin: 0 }
.wide { grid-column: 1 / -1; overflow-x: auto }
.wide svg { min-width: 720px }
.finding { border-left: 4px solid var(--bad) }
.finding.note { border-left-color: var(--note) }
.tag { font-size: 12px; font-weight: 600; padding: 1px 8px; border-radius: 999px; margin-right: 8px }
.tag { background: var(--bad-soft); color: var(--bad); vertical-align: 2px }
.note .tag { background: var(--note-soft); color: var(--note) }
details { margin-top: 6px }
summary { cursor: pointer; color: var(--soft) }
ul { margin: 6px 0; padding-left: 20px; font: 13px/1.6 ui-monospace, monospace; overflow-wrap: anywhere }
.scroll { overflow-x: auto }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { text-align: right; padding: 5px 7px; border-top: 1px solid var(--line); white-space: nowrap }
th { font-weight: 500; color: var(--soft); border-top: 0 }
th:first-child, td:first-child { text-align: left }
svg { display: block; width: 100%; height: auto; font: 12px system-ui, sans-serif }
svg .bar { fill: var(--bar) }
svg .empty { fill: var(--line); opacity: .45 }
svg .grid { stroke: var(--line) }
svg .base { stroke: var(--soft) }
svg .tick, svg .axis { fill: var(--soft) }
svg .name { fill: var(--text) }
"""
