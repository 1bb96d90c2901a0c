'use strict';
// This is the page: what is chosen, and how. The files page_*.js come after this one in the same script.
//
// DATA has what show.py packs, one kernel's run or more: launches, each with arrays, shapes (what events have in common) and columns
// of events. All runs share the time axis; one of them is active, and the other views are of it.

const $ = (selector, root = document) => root.querySelector(selector);
const MEMORY = new Set(['load', 'store', 'atomic_read', 'atomic_write', 'atomic_update']);
const WALLS = new Set(['barrier', 'grid_barrier', 'cluster_barrier']);
const number = value => Number(value).toLocaleString('en-US');
const escape = text => String(text).replace(/[&<>"]/g, c => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c]);
const plural = (n, what) => `${number(n)} ${what}${n === 1 ? '' : 's'}`;
const laneColour = lane => `hsl(${(205 + lane * 11) % 360} 70% ${document.documentElement.dataset.theme === 'dark' ? 62 : 50}%)`;

const runs = [];                                // {name, page, packed, L, axis}
let active, page, L;                            // a run, its page and the launch of it that is shown
const state = { tick: 0, event: -1, line: -1, element: null, lane: -1, hover: null, from: 0, to: 1, tab: 'matrices' };

// Does f as if another run were active.
function within(run, f) {
  const kept = [page, L];
  [page, L] = [run.page, run.L];
  try { return f(); } finally { [page, L] = kept; }
}

const endOfTime = () => Math.max(...runs.map(run => run.L?.end ?? 1));

// Writes 1, 2, 3, 7 as "1–3, 7".
function ranges(values) {
  const sorted = [...values].sort((a, b) => a - b), parts = [];
  for (let i = 0; i < sorted.length; i++) {
    const first = sorted[i];
    while (sorted[i + 1] === sorted[i] + 1) i++;
    parts.push(first === sorted[i] ? `${first}` : `${first}–${sorted[i]}`);
  }
  return parts.length > 6 ? `${parts.slice(0, 5).join(', ')} and ${parts.length - 5} more` : parts.join(', ');
}

const lanesOf = (() => {
  const known = new Map();
  return mask => {
    if (!known.has(mask)) known.set(mask, [...Array(32).keys()].filter(lane => mask / 2 ** lane & 1));
    return known.get(mask);
  };
})();

// --------------------------------------------------------------------------------------------------------------------
// Choosing

function touches(e, { array, index }) {
  let found = false;
  const unit = L.arrays[array].unit;
  accesses(e, (lane, a, byte, bytes) => { found ||= a === array && byte < (index + 1) * unit && byte + bytes > index * unit; });
  return found;
}

function setFilter() {
  L.match = null;
  if (state.line >= 0 || state.element) {
    L.match = new Uint8Array(L.count);
    const among = state.element ? L.arrays[state.element.array].events : L.perLine.get(state.line)?.events ?? [];
    state.copies = state.element ? copies(state.element) : [];
    for (const copy of state.copies) for (const e of L.arrays[copy.array].events) if (e >= copy.from && e < copy.to && touches(e, copy)) L.match[e] = 1;
    for (const e of among)
      if ((state.line < 0 || lineOf(e) === state.line) && (!state.element || touches(e, state.element))) L.match[e] = 1;
  }
  draw(true);
}

const matches = e => !L.match || L.match[e] === 1;
const telling = e => MEMORY.has(shape(e).kind) || shape(e).kind.startsWith('tma_');

// Returns the first chosen event from tick on (or the last before it), and prefers requests to memory.
function nearest(tick, accept) {
  let best = -1;
  for (let e = 0; e < L.count; e++)
    if (accept(e)) { if (L.tick[e] >= tick) return e; best = e; }
  return best;
}

function chooseEvent(e) {
  if (e < 0) return;
  state.event = e;
  state.tick = L.tick[e];
  if (state.tick < state.from || state.tick > state.to) zoom(1, state.tick);
  draw(true);
}

function chooseLine(line) {
  state.line = state.line === line ? -1 : line;
  setFilter();
  if (state.line >= 0) {
    const e = nearest(state.tick, e => matches(e) && telling(e));
    chooseEvent(e >= 0 ? e : nearest(state.tick, matches));
  }
}

function chooseElement(element) {
  const same = state.element && element && state.element.array === element.array && state.element.index === element.index;
  state.element = same ? null : element;
  setFilter();
  if (state.element) chooseEvent(nearest(state.tick, matches));
}

function step(direction, any) {
  const warp = state.event >= 0 ? L.warp[state.event] : -1;
  const from = state.event >= 0 ? state.event : direction > 0 ? -1 : L.count;
  for (let e = from + direction; e >= 0 && e < L.count; e += direction)
    if (matches(e) && (L.match || telling(e)) && (any || warp < 0 || L.warp[e] === warp)) { chooseEvent(e); return; }
}

function setTick(tick) {
  state.tick = Math.max(0, Math.min(endOfTime(), Math.round(tick)));
  const warp = state.event >= 0 ? L.warp[state.event] : -1;
  const among = e => telling(e) && matches(e) && L.tick[e] <= state.tick && (warp < 0 || L.warp[e] === warp);
  for (let e = after(state.tick) - 1; e >= 0; e--) if (among(e)) { state.event = e; break; }
  draw(false);
}

// Returns the first event later than tick.
function after(tick) {
  let low = 0, high = L.count;
  while (low < high) { const middle = low + high >> 1; if (L.tick[middle] <= tick) low = middle + 1; else high = middle; }
  return low;
}

function clearAll() {
  Object.assign(state, { line: -1, element: null, lane: -1, hover: null, from: 0, to: endOfTime() });
  setFilter();
}

function nextBarrier(direction) {
  const walls = L.walls.filter(wall => direction > 0 ? wall > state.tick : wall < state.tick), wall = direction > 0 ? walls[0] : walls.pop();
  for (let e = after(wall - 1); wall !== undefined && e < L.count; e++) if (L.tick[e] === wall && WALLS.has(shape(e).kind)) { chooseEvent(e); return; }
}

function move(direction) {
  const span = state.to - state.from, from = Math.max(0, Math.min(endOfTime() - span, state.from + direction * span / 4));
  Object.assign(state, { from, to: from + span });
  draw(true);
}

let waiting = 0, everything = false;
function draw(all) {
  everything ||= all;
  waiting ||= requestAnimationFrame(() => {
    const whole = everything;
    waiting = 0;
    everything = false;
    markSource();
    drawGrids();
    drawRequest();
    if (whole) for (const run of runs) within(run, () => drawLanes(run));
    for (const run of runs) within(run, () => drawOver(run));
    drawNow();
    keepAddress();
  });
}

// --------------------------------------------------------------------------------------------------------------------
// Mouse and keyboard

let playing = 0;
function play() {
  $('#play').textContent = playing ? '▶' : '❚❚';
  $('#play').setAttribute('aria-label', playing ? 'play' : 'pause');
  if (playing) { clearInterval(playing); playing = 0; return; }
  if (state.tick >= endOfTime()) state.tick = 0;
  playing = setInterval(() => { setTick(state.tick + Math.max(1, (state.to - state.from) / 400)); if (state.tick >= endOfTime()) play(); }, 40);
}

function theme(name) {
  document.documentElement.dataset.theme = name;
  draw(true);
}

// Gives a run its axis, before those that are there where it is the older rung.
function addAxis(run, first) {
  const box = Object.assign(document.createElement('div'), { className: 'axis' });
  box.innerHTML = `<h3>${escape(run.page.title)}</h3><div><canvas class="lanes" role="img" aria-label="what each warp of ${escape(run.page.title)} does, ` +
    'over time"></canvas><canvas class="over" aria-hidden="true"></canvas></div>';
  if (first) $('#axes').prepend(box); else $('#axes').append(box);
  run.axis = { box, lanes: $('.lanes', box), over: $('.over', box) };
  const { over } = run.axis;
  let drag = null;
  over.onmousedown = event => { drag = { x: event.clientX, from: state.from, to: state.to, moved: false }; };
  window.addEventListener('mousemove', event => {
    if (!drag) return;
    const by = (event.clientX - drag.x) / (over.clientWidth - LEFT) * (drag.to - drag.from);
    if (Math.abs(event.clientX - drag.x) < 4 && !drag.moved) return;
    drag.moved = true;
    const from = Math.min(Math.max(0, drag.from - by), endOfTime() - (drag.to - drag.from));
    Object.assign(state, { from, to: from + drag.to - drag.from });
    draw(true);
  });
  window.addEventListener('mouseup', event => {
    if (drag && !drag.moved) {
      if (run !== active) activate(run);
      const found = eventAt(run, event);
      if (found.event >= 0) chooseEvent(found.event); else setTick(found.tick);
    }
    drag = null;
  });
  over.onmousemove = event => within(run, () => {
    const found = eventAt(run, event);
    $('#time h2 small').textContent = found.event >= 0 ? describe(found.event) : '';
  });
  over.onmouseleave = () => { $('#time h2 small').textContent = ''; };
  over.addEventListener('wheel', event => { event.preventDefault(); zoom(event.deltaY > 0 ? 1.25 : 0.8, tickAt(event.offsetX, over.clientWidth)); }, { passive: false });
}

function listen() {
  $('#tick').oninput = event => setTick(+event.target.value);
  $('#source').onclick = event => { const tr = event.target.closest('tr[data-line]'); if (tr) chooseLine(+tr.dataset.line); };
  $('#request').onclick = event => {
    const lane = event.target.closest('[data-lane]')?.dataset.lane;
    if (lane !== undefined) { state.lane = state.lane === +lane ? -1 : +lane; draw(true); }
  };
  $('#request').onkeydown = event => {
    if (event.key !== 'Enter' || !event.target.matches('[data-lane]')) return;
    event.preventDefault();
    const lane = +event.target.dataset.lane;
    state.lane = state.lane === lane ? -1 : lane;
    draw(true);
    requestAnimationFrame(() => requestAnimationFrame(() => $(`#request [tabindex][data-lane="${lane}"]`)?.focus()));
  };
  const tabs = [...document.querySelectorAll('[data-tab]')];
  for (const button of tabs) {
    button.onclick = () => showTab(button.dataset.tab);
    button.onkeydown = event => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key], there = tabs.filter(tab => !tab.hidden);
      if (!by) return;
      event.preventDefault();
      event.stopPropagation();
      const next = there[(there.indexOf(button) + by + there.length) % there.length];
      showTab(next.dataset.tab);
      next.focus();
    };
  }
  $('#save').onclick = () => {
    const file = Object.assign(document.createElement('a'), { href: URL.createObjectURL(new Blob([active.packed])), download: `${active.name || 'run'}.trace` });
    file.click();
    URL.revokeObjectURL(file.href);
  };
  const openAll = async files => { for (const file of files) await beside(new Uint8Array(await file.arrayBuffer())); };
  $('#open').onclick = () => $('#file').click();
  $('#file').onchange = event => openAll(event.target.files);
  window.addEventListener('dragover', event => event.preventDefault());
  window.addEventListener('drop', event => { event.preventDefault(); openAll(event.dataTransfer.files); });
  $('#beside').onclick = () => loadBeside(page.before);
  $('#play').onclick = play;
  $('#before').onclick = event => step(-1, event.shiftKey);
  $('#after').onclick = event => step(1, event.shiftKey);
  $('#clear').onclick = clearAll;
  $('#help').onclick = () => $('#reading').showModal();
  $('#theme').onclick = () => theme(state.theme = document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark');
  $('#launch').onchange = event => { use(+event.target.value); chooseEvent(nearest(0, telling)); };
  const keys = {
    ArrowLeft: event => step(-1, event.shiftKey), ArrowRight: event => step(1, event.shiftKey), ArrowUp: () => nextLine(-1), ArrowDown: () => nextLine(1),
    Home: () => setTick(0), End: () => setTick(endOfTime()), ' ': play, b: () => nextBarrier(1), B: () => nextBarrier(-1),
    '[': () => move(-1), ']': () => move(1), o: () => activate(runs[(runs.indexOf(active) + 1) % runs.length]), '+': () => zoom(0.7, state.tick), '-': () => zoom(1.4, state.tick),
    Escape: clearAll, t: () => $('#theme').click(), '?': () => $('#help').click(),
  };
  window.addEventListener('keydown', event => {
    if (event.target.matches('input[type=number], select, dialog *') || event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    if (event.key === ' ' && event.target.matches('button, [role=button]')) return;
    event.preventDefault();
    keys[event.key](event);
  });
}

function nextLine(direction) {
  const lines = [...L.rows.keys()], now = lines.indexOf(state.line), next = lines[now < 0 ? (direction > 0 ? 0 : lines.length - 1) : now + direction];
  if (next === undefined) return;
  chooseLine(next);
}

// --------------------------------------------------------------------------------------------------------------------
// Runs: more than one may be on the time axis

async function unpack(bytes) {
  return JSON.parse(await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'))).text());
}

async function add(packed, first = false) {
  const run = { page: await unpack(packed), packed };
  run.name = run.page.step ? `${run.page.step.slice(0, 2)}_${run.page.kernel}` : run.page.kernel;
  if (first) runs.unshift(run); else runs.push(run);
  addAxis(run, first);
  run.most = run.page.launches.reduce((best, launch, i) => launch.events.tick.length > run.page.launches[best].events.tick.length ? i : best, 0);
  page = run.page;
  prepare(run, run.most);
  return run;
}

const decoded = text => Uint8Array.from(atob(text), c => c.charCodeAt(0));

// Puts a saved trace beside the active run.
async function beside(packed, first = false) {
  let run;
  try {
    run = await add(packed, first);
  } catch (error) {
    [page, L] = [active.page, active.L];
    $('#failure').hidden = false;
    $('#failure').textContent = 'This file is not a trace that a page like this one saved.';
    return;
  }
  while (runs.length > 2) runs.splice(runs.findIndex(each => each !== active && each !== run), 1)[0].axis.box.remove();
  activate(active);
}

// Loads a kernel's run from its script, which lies beside this page in the book.
async function loadBeside(name) {
  if (!/^\d\d_\w+$/.test(name) || runs.some(run => run.name === name)) return;
  const script = Object.assign(document.createElement('script'), { src: `${name}.js` });
  await new Promise(done => { script.onload = script.onerror = done; document.head.append(script); });
  for (const text of DATA.splice(0)) await beside(decoded(text), true);
}

function activate(run) {
  active = run;
  [page, L] = [run.page, run.L];
  const option = (launch, i) => `<option value="${i}"${i === L.index ? ' selected' : ''}>launch ${i + 1}: ${escape(launch.kernel)}</option>`;
  $('#launch').innerHTML = page.launches.map(option).join('');
  $('#launch').hidden = page.launches.length < 2;
  const { book } = document.body.dataset;
  $('h1').textContent = runs.map(each => each.page.title).join(' | ');
  $('#beside').hidden = !book || !page.before || runs.length > 1;
  for (const [id, where] of [['lesson', page.lesson], ['words', 'docs/glossary.html']]) {
    $(`#${id}`).hidden = !book || !where;
    if (book && where) Object.assign($(`#${id}`), { href: book + where, target: '_top' });
  }
  use(L.index);
}

// --------------------------------------------------------------------------------------------------------------------
// The address has what is shown, so that a link of another page leads to a moment

let kept = '', keeping = 0;

function address() {
  const parts = new URLSearchParams();
  if (runs.length > 1) parts.set('with', runs.find(run => run !== active).name);
  if (L.index !== active.most) parts.set('launch', L.index + 1);
  if (state.line >= 0) parts.set('line', page.lines[state.line]);
  if (state.element) parts.set('element', `${L.arrays[state.element.array].name}:${state.element.index}`);
  if (state.event >= 0) parts.set('event', state.event);
  parts.set('tick', state.tick);
  if (state.lane >= 0) parts.set('lane', state.lane);
  if (state.from > 0 || state.to < endOfTime()) parts.set('span', `${Math.round(state.from)}-${Math.round(state.to)}`);
  if (state.tab !== 'matrices') parts.set('tab', state.tab);
  if (state.theme) parts.set('theme', state.theme);
  return `#${parts}`;
}

function keepAddress() {
  keeping ||= setTimeout(() => {
    keeping = 0;
    kept = address();
    if (kept !== location.hash) history.replaceState(null, '', kept);
  }, 250);
}

// Returns the line of the source that holds a text and did something, and the launch in which it did: in the kernel's own file and
// in this launch, if it can be.
function lineWith(text) {
  const holds = line => {
    const cut = page.lines[line].lastIndexOf(':');
    return (page.sources[page.lines[line].slice(0, cut)] ?? '').split('\n')[page.lines[line].slice(cut + 1) - 1]?.includes(text);
  };
  for (const launch of [L.index, ...page.launches.keys()]) {
    const found = [...new Set(page.launches[launch].shapes.map(each => each.line ?? -1))].filter(line => line >= 0 && holds(line));
    if (found.length) return [found.find(line => page.lines[line].startsWith(`${L.home}:`)) ?? found[0], launch];
  }
  return [-1, L.index];
}

async function follow() {
  const parts = new URLSearchParams(location.hash.slice(1)), has = name => parts.get(name) ?? '';
  if (/^(dark|light)$/.test(has('theme'))) theme(state.theme = has('theme'));
  if (has('with')) await loadBeside(has('with'));
  if (+has('launch') > 0 && +has('launch') <= page.launches.length && has('launch') - 1 !== L.index) use(has('launch') - 1);
  const [line, launch] = has('at') ? lineWith(has('at')) : [page.lines.indexOf(has('line')), L.index];
  if (launch !== L.index) use(launch);
  clearAll();
  const [name, index] = has('element').split(/:(?=\d+$)/);
  const array = L.arrays.findIndex(a => a.name === name && +index < a.total.reads.length);
  if (line >= 0) chooseLine(line);
  // A text that names an array means its access, where a line has several.
  const meant = e => matches(e) && shape(e).runs.some(run => has('at').match(/\w+/g)?.includes(L.arrays[run[0]].name));
  if (line >= 0 && has('at')) chooseEvent(nearest(0, meant));
  if (array >= 0) chooseElement({ array, index: +index });
  if (parts.has('event') && +has('event') < L.count) chooseEvent(+has('event'));
  else if (parts.has('tick')) setTick(+has('tick'));
  if (parts.has('lane')) state.lane = +has('lane');
  const [from, to] = has('span').split('-').map(Number);
  if (to > from) Object.assign(state, { from, to: Math.min(to, endOfTime()) });
  if ($(`[data-tab="${CSS.escape(has('tab'))}"]`)) showTab(has('tab'));
  draw(true);
}

(async () => {
  document.documentElement.dataset.theme = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
  listen();
  for (const text of DATA.splice(0)) await add(decoded(text));
  activate(runs[runs.length - 1]);
  const own = nearest(0, e => telling(e) && lineOf(e) >= 0 && page.lines[lineOf(e)].startsWith(`${L.home}:`));
  chooseEvent(own >= 0 ? own : nearest(0, telling));
  L.scrolled = `${lineOf(state.event)} ${state.event}`;   // the source begins with the kernel, even where its first request is in a helper
  window.addEventListener('resize', () => { layoutGrids(); draw(true); });
  window.addEventListener('hashchange', () => { if (location.hash !== kept) follow(); });
  if (location.hash.length > 1) await follow();
  document.body.dataset.ready = 'yes';
})();
