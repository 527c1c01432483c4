"""Style and script of the fade page, kept from the Python that writes its markup."""

from __future__ import annotations

STYLE = """
:root {
  --page: #faf8f3; --surface: #fff; --ink: #1f1c16; --muted: #6a6353; --line: #e5dfd1; --cell: #f3efe5;
  --glow: #f6a81c; --glow-soft: #fde7bd; --strong: #8f5600; --faint: .26;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #13110d; --surface: #1c1914; --ink: #f3eee2; --muted: #a89f8c; --line: #363026; --cell: #26221a;
    --glow: #9c5c00; --glow-soft: #4a3310; --strong: #f7b84b; --faint: .3;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
}
main { max-width: 62rem; margin: 0 auto; padding: clamp(1rem, 4vw, 3rem) clamp(.9rem, 4vw, 2rem); }
h1 { margin: 0 0 1rem; font-size: 1rem; font-weight: 600; color: var(--muted); overflow-wrap: anywhere; }
h2 { margin: 0; font-size: 1.1rem; }
section { margin-top: 2.75rem; }
.sentence { margin: 0; overflow-wrap: anywhere; }
.large { font-size: clamp(1.2rem, 1rem + 1.5vw, 1.75rem); line-height: 1.75; }
.small { font-size: 1rem; line-height: 1.9; }
.w { padding: .1em .22em; border-radius: .25em; -webkit-box-decoration-break: clone;
  box-decoration-break: clone; }
.w:has(+ .continues) { padding-inline-end: 0; border-start-end-radius: 0; border-end-end-radius: 0; }
.continues { padding-inline-start: 0; border-start-start-radius: 0; border-end-start-radius: 0; }
.w:has(+ .mark) { padding-inline-end: .1em; }
.mark { padding-inline-start: .05em; }
.special { font: 500 .62em/1 ui-monospace, "SF Mono", Menlo, Consolas, monospace; vertical-align: .18em; }
.heat .w {
  background: color-mix(in srgb, var(--glow) calc(var(--depth) * 100%), transparent);
  color: color-mix(in srgb, var(--ink) calc(40% + var(--depth) * 300%), var(--muted));
}
.legend { display: flex; align-items: center; gap: .6rem; margin: .9rem 0 0; font-size: .8rem;
  color: var(--muted); }
.legend span { white-space: nowrap; }
.legend i { flex: 0 1 7rem; min-width: 1.5rem; height: .6rem; border-radius: .3rem;
  border: 1px solid var(--line);
  background: linear-gradient(90deg, transparent, var(--glow)); }
.figures { display: flex; flex-wrap: wrap; gap: 1px;
  margin: 1.75rem 0; background: var(--line); border: 1px solid var(--line); border-radius: .75rem;
  overflow: hidden; }
.figures div { flex: 1 1 9.5rem; padding: .8rem 1rem; background: var(--surface); }
dt { font-size: .8rem; color: var(--muted); }
dd { margin: 0; font-size: .9rem; color: var(--muted); overflow-wrap: anywhere; }
dd strong { font-size: 1.45rem; font-weight: 650; color: var(--ink); font-variant-numeric: tabular-nums; }
.controls { position: sticky; top: 0; z-index: 2; padding: .75rem 0 .9rem; background: var(--page); }
.chart { display: block; overflow: visible; }
.bar .hit { fill: transparent; }
.bar .fill { fill: var(--glow-soft); transition: fill .3s; }
.bar text { font-size: 11px; text-anchor: middle; fill: var(--muted); font-variant-numeric: tabular-nums; }
.js .bar { cursor: pointer; }
.bar.now .fill { fill: var(--glow); }
.bar.now text { fill: var(--ink); font-weight: 700; }
/* the thumb moves between the middles of the first and the last bar, so it stands below its encoder */
#step { --slot: calc(100% / (var(--encoders) + 1)); display: none; height: 28px; accent-color: var(--strong);
  width: calc(100% - var(--slot) + 16px); margin: 0 0 0 calc(var(--slot) / 2 - 8px); cursor: pointer; }
.js #step { display: block; }
.bar-below { display: flex; align-items: center; gap: .9rem; min-height: 2.4rem; }
output { font-variant-numeric: tabular-nums; }
button { font: inherit; font-size: .9rem; padding: .35rem .95rem; border-radius: 2rem; cursor: pointer;
  display: none; color: var(--ink); background: var(--surface); border: 1px solid var(--line); }
.js button { display: inline-block; }
button:hover { border-color: var(--strong); }
button[aria-pressed="true"] { background: var(--glow-soft); border-color: var(--strong); }
#play { min-width: 5.2rem; font-weight: 600; background: var(--ink); border-color: var(--ink);
  color: var(--page); }
:focus-visible { outline: 2px solid var(--strong); outline-offset: 2px; }
.fade .w { background: var(--glow-soft); transition: opacity .6s, background-color .6s; }
.fade .out { background: transparent; opacity: var(--faint); }
.fade .fresh { opacity: .6; text-decoration: line-through; text-decoration-thickness: 1px; }
.heading { display: flex; justify-content: space-between; align-items: center; gap: 1rem;
  margin-bottom: .9rem; }
.frame { overflow-x: auto; background: var(--surface); border: 1px solid var(--line); border-radius: .75rem; }
.tall { max-height: 80vh; overflow: auto; }
.grid { width: 100%; border-collapse: separate; border-spacing: 0; font-size: .9rem; }
.grid thead th { position: sticky; top: 0; z-index: 1; padding: .6rem .6rem .45rem;
  background: var(--surface); border-bottom: 1px solid var(--line);
  font-size: .75rem; font-weight: 600; color: var(--muted); text-align: start; }
.grid .numbers { padding-inline: 0; }
.numbers div { display: grid; grid-template-columns: repeat(var(--encoders), 1fr); text-align: center; }
.numbers b { font-weight: 500; font-variant-numeric: tabular-nums; border-radius: .3rem; }
.numbers .now { background: var(--ink); color: var(--page); }
.grid tbody th { width: 1%; padding: .12rem .8rem .12rem .6rem; font-weight: 500; text-align: start;
  white-space: nowrap; max-width: 10rem; overflow: hidden; text-overflow: ellipsis; transition: opacity .4s; }
.grid tbody .out th { opacity: .6; }
.grid td:last-child, .grid thead th:last-child { width: 1%; padding-inline: .6rem; text-align: end; }
.grid td:last-child { color: var(--muted); font-variant-numeric: tabular-nums; }
.grid tbody::before, .grid tbody::after { content: ""; display: block; height: .4rem; }
abbr { text-decoration: none; }
.grid td.life { position: relative; height: 1.6rem; padding: 0; min-width: calc(var(--encoders) * 14px); }
/* one cell per encoder: a ground, the encoders that retain the word, the one where it fades, the gaps */
.life::before, .life i, .life::after { content: ""; position: absolute; inset-block: 2px; left: 0; }
.life::before { right: 0; background: var(--cell); }
.life i { --colour: color-mix(in srgb, var(--glow) calc(30% + var(--depth) * 70%), var(--cell));
  --one: calc(100% / var(--encoders)); width: calc(var(--one) * var(--last)); background: var(--colour); }
.life.ends i { --solid: calc(100% * var(--last) / (var(--last) + 1));
  width: calc(var(--one) * (var(--last) + 1));
  background: linear-gradient(90deg, var(--colour) var(--solid), transparent); }
.life::after { --one: calc(100% / var(--encoders)); right: 0;
  background: repeating-linear-gradient(90deg, transparent 0 calc(var(--one) - 2px),
    var(--surface) calc(var(--one) - 2px) var(--one)); }
footer { margin-top: 2.5rem; font-size: .85rem; color: var(--muted); }
code { font: .95em ui-monospace, "SF Mono", Menlo, Consolas, monospace; overflow-wrap: anywhere; }
@media (max-width: 32rem) {
  .dense .count { display: none; }
  .dense g:nth-child(even) .name { display: none; }
  .grid tbody th { max-width: 6.5rem; }
  .bar text { font-size: 10px; }
}
@media (prefers-reduced-motion: reduce) { * { transition: none !important; } }
@media print {
  button, #step { display: none !important; }
  .tall { max-height: none; }
  .controls { position: static; }
}
"""

SCRIPT = """
(() => {
  'use strict';
  const find = (id) => document.getElementById(id);
  const all = (selector) => [...document.querySelectorAll(selector)];
  const trace = JSON.parse(find('trace').textContent);
  const encoders = trace.counts.length;
  const total = trace.tokens.length;
  const slider = find('step'), play = find('play'), sort = find('sort'), status = find('status');
  const words = all('[data-last]'), bars = all('.bar'), numbers = all('[data-encoder]');
  let timer = 0;

  const describe = (step) => step === 0
    ? `The input: ${total} word-vectors`
    : `Encoder ${step} of ${encoders} retains ${trace.counts[step - 1]} of ${total}`;

  function show(step) {
    slider.value = step;
    slider.setAttribute('aria-valuetext', describe(step));
    status.textContent = describe(step);
    for (const word of words) {
      const last = Number(word.dataset.last);
      word.classList.toggle('out', last < step);
      word.classList.toggle('fresh', last === step - 1);
    }
    bars.forEach((bar, j) => bar.classList.toggle('now', j === step));
    numbers.forEach((number, j) => number.classList.toggle('now', j + 1 === step));
  }

  function stop() {
    clearInterval(timer);
    timer = 0;
    play.setAttribute('aria-pressed', 'false');
    play.textContent = 'Play';
  }

  function start() {
    if (Number(slider.value) === encoders) show(0);
    play.setAttribute('aria-pressed', 'true');
    play.textContent = 'Pause';
    timer = setInterval(() => {
      const next = Number(slider.value) + 1;
      show(next);
      if (next >= encoders) stop();
    }, 900);
  }

  slider.addEventListener('input', () => { stop(); show(Number(slider.value)); });
  play.addEventListener('click', () => (timer ? stop() : start()));
  bars.forEach((bar, j) => bar.addEventListener('click', () => { stop(); show(j); }));
  sort.addEventListener('click', () => {
    const deepest = sort.getAttribute('aria-pressed') !== 'true';
    sort.setAttribute('aria-pressed', String(deepest));
    const body = document.querySelector('.grid tbody');
    const depth = (row) => (deepest ? -Number(row.dataset.last) : 0);
    const rows = [...body.rows].sort((a, b) => depth(a) - depth(b) || a.dataset.place - b.dataset.place);
    body.append(...rows);
  });

  document.documentElement.classList.add('js');
  const asked = Number(location.hash.slice(1));  // page.html#5 opens at encoder 5
  show(Number.isInteger(asked) && asked >= 0 && asked <= encoders ? asked : 0);
})();
"""
