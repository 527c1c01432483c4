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
