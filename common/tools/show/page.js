'use strict';
// This is the page: what is chosen, and how. The files page_*.js come after this one in the same script.
//
// Its data is what show.py packs: launches, each with arrays, shapes (what events have in common) and columns of events.

const $ = (selector, root = document) => root.querySelector(selector);
const MEMORY = new Set(['load', 'store', 'atomic_read', 'atomic_write', 'atomic_update']);
const WALLS = new Set(['barrier', 'grid_barrier', 'cluster_barrier']);
const number = value => Number(value).toLocaleString('en-US');
const escape = text => String(text).replace(/[&<>"]/g, c => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c]);
const plural = (n, what) => `${number(n)} ${what}${n === 1 ? '' : 's'}`;
const laneColour = lane => `hsl(${(205 + lane * 11) % 360} 70% ${document.documentElement.dataset.theme === 'dark' ? 62 : 50}%)`;

let page, L;                                    // all, and the launch that is shown
const state = { tick: 0, event: -1, line: -1, element: null, lane: -1, hover: null, from: 0, to: 1, tab: 'matrices' };

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
  L.rows.get(lineOf(e))?.scrollIntoView({ block: 'nearest' });
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
  state.tick = Math.max(0, Math.min(L.end, Math.round(tick)));
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
  Object.assign(state, { line: -1, element: null, lane: -1, hover: null, from: 0, to: L.end });
  setFilter();
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
    if (whole) drawLanes();
    drawOver();
  });
}

// --------------------------------------------------------------------------------------------------------------------
// Mouse and keyboard

let playing = 0;
function play() {
  $('#play').textContent = playing ? '▶' : '❚❚';
  if (playing) { clearInterval(playing); playing = 0; return; }
  if (state.tick >= L.end) state.tick = 0;
  playing = setInterval(() => { setTick(state.tick + Math.max(1, (state.to - state.from) / 400)); if (state.tick >= L.end) play(); }, 40);
}

function theme(name) {
  document.documentElement.dataset.theme = name;
  draw(true);
}

function listen() {
  const over = $('#over');
  let drag = null;
  over.onmousedown = event => { drag = { x: event.clientX, from: state.from, to: state.to, moved: false }; };
  window.addEventListener('mousemove', event => {
    if (!drag) return;
    const by = (event.clientX - drag.x) / (over.clientWidth - LEFT) * (drag.to - drag.from);
    if (Math.abs(event.clientX - drag.x) < 4 && !drag.moved) return;
    drag.moved = true;
    const from = Math.min(Math.max(0, drag.from - by), L.end - (drag.to - drag.from));
    Object.assign(state, { from, to: from + drag.to - drag.from });
    draw(true);
  });
  window.addEventListener('mouseup', event => {
    if (drag && !drag.moved) {
      const found = eventAt(event);
      if (found.event >= 0) chooseEvent(found.event); else setTick(found.tick);
    }
    drag = null;
  });
  over.onmousemove = event => { const found = eventAt(event); $('#time h2 small').textContent = found.event >= 0 ? describe(found.event) : ''; };
  over.onmouseleave = () => { $('#time h2 small').textContent = ''; };
  over.addEventListener('wheel', event => { event.preventDefault(); zoom(event.deltaY > 0 ? 1.25 : 0.8, tickAt(event.offsetX, over.clientWidth)); }, { passive: false });
  $('#tick').oninput = event => setTick(+event.target.value);
  $('#source').onclick = event => { const tr = event.target.closest('tr[data-line]'); if (tr) chooseLine(+tr.dataset.line); };
  $('#request').onclick = event => {
    const lane = event.target.closest('[data-lane]')?.dataset.lane;
    if (lane !== undefined) { state.lane = state.lane === +lane ? -1 : +lane; draw(true); }
  };
  document.querySelectorAll('[data-tab]').forEach(button => { button.onclick = () => showTab(button.dataset.tab); });
  $('#play').onclick = play;
  $('#before').onclick = event => step(-1, event.shiftKey);
  $('#after').onclick = event => step(1, event.shiftKey);
  $('#clear').onclick = clearAll;
  $('#help').onclick = () => $('#reading').showModal();
  $('#theme').onclick = () => theme(document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark');
  $('#launch').onchange = event => use(+event.target.value);
  window.addEventListener('resize', () => { layoutGrids(); draw(true); });
  const keys = {
    ArrowLeft: event => step(-1, event.shiftKey), ArrowRight: event => step(1, event.shiftKey), ArrowUp: () => nextLine(-1), ArrowDown: () => nextLine(1),
    Home: () => setTick(0), End: () => setTick(L.end), ' ': play, '+': () => zoom(0.7, state.tick), '-': () => zoom(1.4, state.tick),
    Escape: clearAll, t: () => $('#theme').click(), '?': () => $('#help').click(),
  };
  window.addEventListener('keydown', event => {
    if (event.target.matches('input[type=number], select, dialog *') || event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    if (event.key === ' ' && event.target.matches('button')) return;
    event.preventDefault();
    keys[event.key](event);
  });
}

function nextLine(direction) {
  const lines = [...L.rows.keys()], now = lines.indexOf(state.line), next = lines[now < 0 ? (direction > 0 ? 0 : lines.length - 1) : now + direction];
  if (next === undefined) return;
  chooseLine(next);
  L.rows.get(next).scrollIntoView({ block: 'nearest' });
}

(async () => {
  const bytes = Uint8Array.from(atob($('#data').textContent), c => c.charCodeAt(0));
  page = JSON.parse(await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'))).text());
  document.documentElement.dataset.theme = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
  const most = page.launches.reduce((best, launch, i) => launch.events.tick.length > page.launches[best].events.tick.length ? i : best, 0);
  const option = (launch, i) => `<option value="${i}"${i === most ? ' selected' : ''}>launch ${i + 1}: ${escape(launch.kernel)}</option>`;
  $('#launch').innerHTML = page.launches.map(option).join('');
  $('#launch').hidden = page.launches.length < 2;
  listen();
  use(most);
  chooseEvent(nearest(0, telling));
  document.body.dataset.ready = 'yes';
})();
