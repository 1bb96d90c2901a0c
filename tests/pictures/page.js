'use strict';
// The page's data is what show.py packs: launches, each with arrays, shapes (what events have in common) and columns of events.

const $ = (selector, root = document) => root.querySelector(selector);
const MEMORY = new Set(['load', 'store', 'atomic_read', 'atomic_write', 'atomic_update']);
const WALLS = new Set(['barrier', 'grid_barrier', 'cluster_barrier']);
const number = value => Number(value).toLocaleString('en-US');
const escape = text => String(text).replace(/[&<>"]/g, c => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c]);
const plural = (n, what) => `${number(n)} ${what}${n === 1 ? '' : 's'}`;
const laneColour = lane => `hsl(${(205 + lane * 11) % 360} 70% ${document.documentElement.dataset.theme === 'dark' ? 62 : 50}%)`;

let page, L;                                    // all, and the launch that is shown
const state = { tick: 0, event: -1, line: -1, element: null, lane: -1, hover: null, from: 0, to: 1, tab: 'matrices' };

// 1, 2, 3, 7 as "1–3, 7"
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
// Events

const shape = e => L.shapes[L.shape[e]];
const lineOf = e => shape(e).line ?? -1;
const lineText = line => page.lines[line].startsWith(`${L.home}:`) ? `line ${page.lines[line].slice(L.home.length + 1)}` : page.lines[line].replace(/^.*\//, '');

// Calls f(lane, array, byte, bytes, writes) for all that an event touches.
function accesses(e, f) {
  const s = shape(e);
  if (MEMORY.has(s.kind)) {
    const lanes = lanesOf(s.lanes), bytes = s.bytes || s.size, writes = !['load', 'atomic_read'].includes(s.kind);
    let i = 0;
    for (const [array, first, step, count] of s.runs)
      for (let k = 0; k < count; k++) f(lanes[i++], array, L.base[e] + first + k * step, bytes, writes);
  } else if (s.kind === 'tma_load' || s.kind === 'tma_store') {
    const writes = s.kind === 'tma_store', [array, first] = s.runs[0];
    boxRows(s, L.arrays[array].bytes, (byte, bytes) => f(-1, array, L.base[e] + first + byte, bytes, writes));
    f(-1, s.shared[0][0], s.shared[0][1], s.box.reduce((a, b) => a * b, s.element_bytes), !writes);
  }
}

// The rows of a box that lie inside the array.
function boxRows(s, all, f) {
  const rank = s.box.length, extent = [s.strides.length ? s.strides[0] / s.element_bytes : all / s.element_bytes];
  for (let d = 1; d < rank; d++) extent.push((d < rank - 1 ? s.strides[d] : all) / s.strides[d - 1]);
  const low = Math.max(0, s.from[0]), high = Math.min(extent[0], s.from[0] + s.box[0]);
  const row = (d, byte) => {
    if (d === 0) { if (high > low) f(byte + low * s.element_bytes, (high - low) * s.element_bytes); return; }
    for (let i = Math.max(0, s.from[d]); i < Math.min(extent[d], s.from[d] + s.box[d]); i++) row(d - 1, byte + i * s.strides[d - 1]);
  };
  row(rank - 1, 0);
}

function kindOf(s) {
  if (s.kind === 'load' || s.kind === 'store') return (s.space === 'shared' ? 'shared-' : '') + s.kind;
  if (s.kind.startsWith('atomic')) return 'atomic';
  if (s.kind === 'wgmma' || s.kind === 'warp' && /mma/.test(s.operation)) return 'multiply';
  if (s.kind === 'warp') return /matrix/.test(s.operation) ? 'shared-load' : 'meet';
  if (/^(tma_|cp_async$)/.test(s.kind)) return 'engine';
  return 'other';
}
const KINDS = { load: 'global load', store: 'global store', 'shared-load': 'shared load', 'shared-store': 'shared store', multiply: 'mma',
  meet: 'shuffle, vote', atomic: 'atomic', engine: 'copy ordered', other: 'wait, fence' };

// What the events add up to: the counters of the block.
function sums() {
  const total = Object.fromEntries(Object.keys(L.counters).map(name => [name, 0]));
  for (let e = 0; e < L.count; e++) {
    const s = shape(e), lanes = lanesOf(s.lanes).length || 1, copy = s.kind === 'tma_load' || s.kind === 'tma_store';
    if (s.kind === 'load' || s.kind === 'store' || copy) {
      const what = s.kind.replace('tma_', '');
      if (s.space === 'shared') {
        total[`shared_${what}s`] += lanes;
        total.shared_wavefronts += banks(e).length;
        total.shared_wavefronts_ideal += s.ideal;
      } else {
        total[`global_${what}s`] += lanes;
        total[`global_${what}_bytes`] += lanes * s.bytes;
        total[`global_${what}_requests`]++;
        total[`global_${what}_sectors`] += copy ? s.sectors : sectors(e).sectors.size;
      }
      if (copy) {
        total[what === 'load' ? 'shared_stores' : 'shared_loads']++;
        total.shared_wavefronts += s.wavefronts;
        total.shared_wavefronts_ideal += s.wavefronts;
      }
    } else if (s.kind === 'cluster_store') {
      for (const name of ['shared_stores', 'shared_wavefronts', 'shared_wavefronts_ideal']) total[name] += lanes;
    } else if (WALLS.has(s.kind) || s.kind === 'named_barrier') total.barriers++;
    else if (s.kind.startsWith('atomic')) total.atomics += lanes;
  }
  return total;
}

// Sectors and lines of a request to global memory, each with what lanes want of it.
function sectors(e) {
  const found = { sectors: new Set(), lines: new Map(), wanted: new Set() };
  accesses(e, (lane, array, byte, bytes) => {
    const begin = L.arrays[array].begin;
    found.sectors.add(array * 2 ** 40 + Math.floor((byte + begin) / 32));
    const key = array * 2 ** 40 + Math.floor((byte + begin) / 128);
    if (!found.lines.has(key)) found.lines.set(key, { array, byte: Math.floor((byte + begin) / 128) * 128 - begin, wants: [] });
    found.lines.get(key).wants.push({ lane, at: (byte + begin) % 128, bytes });
    for (let b = byte; b < byte + bytes; b++) found.wanted.add(array * 2 ** 40 + b);
  });
  return found;
}

// Wavefronts of a request to shared memory: for each, {bank: {word, lanes}}. `where` moves words of the array, for what-if.
function banks(e, where = word => word) {
  const s = shape(e), words = Math.max(s.bytes >> 2, 1), groups = [];
  accesses(e, (lane, array, byte) => {
    const first = (byte + L.arrays[array].begin) >> 2, shift = first - (byte >> 2);
    for (let word = first; word < first + words; word++) {
      const group = groups[lane * words >> 5] ??= new Map(), moved = where(word - shift) + shift, bank = moved & 31;
      if (!group.has(bank)) group.set(bank, new Map());
      const of = group.get(bank), key = array * 2 ** 32 + moved;
      if (!of.has(key)) of.set(key, { word: word - shift, array, lanes: [] });
      of.get(key).lanes.push(lane);
    }
  });
  const fronts = [];
  groups.forEach((group, g) => {
    const most = Math.max(...[...group.values()].map(of => of.size));
    for (let i = 0; i < most; i++) {
      const front = { group: g, banks: new Map() };
      for (const [bank, of] of group) if (of.size > i) front.banks.set(bank, [...of.values()][i]);
      fronts.push(front);
    }
  });
  return fronts;
}

function place(array, byte) {
  const a = L.arrays[array], index = Math.floor(byte / a.unit);
  if (!a.shape.length) return a.space === 'shared' ? `${a.name} + ${byte} B` : `${a.name}[${index}]`;
  let rest = index, text = '';
  for (const extent of [...a.shape].reverse()) { text = `[${rest % extent}]${text}`; rest = Math.floor(rest / extent); }
  return a.name + text;
}

function describe(e) {
  const s = shape(e), who = /^(named_|cluster_|grid_)?barrier$|_phase$/.test(s.kind) ? '' : s.kind === 'tma_load_done' ? 'copy engine:' : L.warp[e] >= 0 ? `warp ${L.warp[e]}` : 'the block', at = s.line === undefined ? '' : ` · ${lineText(s.line)}`;
  const what = {
    load: 'loads', store: 'stores', tma_load: 'orders a box of', tma_store: 'orders the store of a box of', warp: s.operation,
    barrier: 'all warps are at the barrier', cp_async: `orders copies, group ${L.value[e]}`, cp_async_commit: `closes group ${L.value[e]} of copies`,
    cp_async_wait: `waits until ${L.value[e]} groups are pending`, mbarrier_wait: `waits for phase ${L.value[e]} of`,
    mbarrier_passed: `passes phase ${L.value[e]} of`, mbarrier_phase: `phase ${L.value[e]} is over:`, mbarrier_arrive: 'arrives at',
    wgmma: `starts a product, group ${L.value[e]}`, wgmma_wait: `waits until ${L.value[e]} groups of products are pending`,
    named_barrier: `named barrier ${s.id}: all are there`, named_barrier_sync: `comes to named barrier ${L.value[e]} and waits`,
    named_barrier_arrive: `comes to named barrier ${L.value[e]}`, tma_load_done: 'the box is there:',
  }[s.kind] ?? s.kind.replace(/_/g, ' ');
  const arrays = [...new Set(s.runs.map(run => run[0]))];
  const of = MEMORY.has(s.kind) || s.kind.startsWith('tma') && !s.kind.endsWith('done') ? arrays.map(a => L.arrays[a].name).join(', ') :
    s.runs.length && !/^(cp|wg)/.test(s.kind) ? place(s.runs[0][0], L.base[e] + s.runs[0][1]) : '';
  return `${who} ${what} ${of}${at}`.trim();
}

// --------------------------------------------------------------------------------------------------------------------
// A launch is chosen

function use(index) {
  const launch = page.launches[index], events = launch.events;
  L = { ...launch, index, count: events.tick.length };
  L.home = L.line.replace(/:\d+$/, '');
  let tick = 0;
  L.tick = Int32Array.from(events.tick, delta => tick += delta);
  for (const name of ['shape', 'warp', 'length', 'base', 'value']) L[name] = Int32Array.from(events[name]);
  L.end = Math.max(1, ...L.count ? [L.tick[L.count - 1] + L.length[L.count - 1]] : []);
  for (let e = 0; e < L.count; e++) L.end = Math.max(L.end, L.tick[e] + L.length[e]);
  L.warps = Math.ceil(L.threads.reduce((a, b) => a * b) / 32);
  for (const a of L.arrays) {
    a.unit = a.element_bytes || (a.space === 'shared' ? 4 : 1);
    a.events = [];
    a.total = { reads: new Uint32Array(Math.ceil(a.bytes / a.unit)), writes: new Uint32Array(Math.ceil(a.bytes / a.unit)) };
    a.most = 1;
  }
  L.walls = [];
  L.perLine = new Map();
  for (let e = 0; e < L.count; e++) {
    const s = shape(e), seen = new Set();
    if (WALLS.has(s.kind)) L.walls.push(L.tick[e]);
    accesses(e, (lane, array, byte, bytes, writes) => {
      const a = L.arrays[array], of = writes ? a.total.writes : a.total.reads;
      if (!seen.has(array)) { seen.add(array); a.events.push(e); }
      for (let i = Math.floor(byte / a.unit); i * a.unit < byte + bytes && i < of.length; i++) a.most = Math.max(a.most, ++of[i]);
    });
    countLine(e, s);
  }
  rings();
  Object.assign(state, { tick: 0, event: -1, line: -1, element: null, lane: -1, hover: null, from: 0, to: L.end });
  $('#tick').max = L.end;
  L.sums = sums();
  drawAbout();
  buildSource();
  $('#time').style.height = `${Math.max(200, Math.min(page.run.check === 'FAIL' || !L.rings.length ? 260 : 330, 78 + timeRows().length * 9.5))}px`;
  buildGrids();
  drawTotals();
  drawErrors();
  showTab(page.run.check === 'FAIL' ? 'errors' : 'matrices');
  setFilter();
}

function countLine(e, s) {
  if (s.line === undefined) return;
  if (!L.perLine.has(s.line)) L.perLine.set(s.line, { requests: 0, sectors: 0, wavefronts: 0, ideal: 0, kinds: {}, events: [] });
  const of = L.perLine.get(s.line), kind = kindOf(s);
  of.events.push(e);
  of.kinds[kind] = (of.kinds[kind] || 0) + 1;
  if (s.kind === 'load' || s.kind === 'store' || s.kind.startsWith('tma_') || s.kind.startsWith('atomic')) of.requests++;
  of.sectors += s.sectors || 0;
  of.wavefronts += s.wavefronts || 0;
  of.ideal += s.ideal ?? s.wavefronts ?? 0;
}

// Places that asynchronous copies fill, when they fill, are full, and are free again; and products in flight.
function rings() {
  const rows = new Map(), groups = new Map(), commits = {}, loads = {}, lastWait = {}, lastFree = {}, products = {};
  const row = (key, label, order) => rows.get(key) ?? rows.set(key, { label, order, parts: [] }).get(key);
  L.waits = [];
  const open = {}, named = {}, announced = new Set();   // mbarriers that count bytes: "full" ones
  for (let e = 0; e < L.count; e++) {
    const s = shape(e), w = L.warp[e], at = s.runs.length ? `${s.runs[0][0]}+${L.base[e] + s.runs[0][1]}` : '';
    if (s.kind === 'mbarrier_arrive' && s.size) announced.add(at);
    if (s.kind === 'mbarrier_wait') { open[w] = L.tick[e]; lastWait[w] = at; }
    if (s.kind === 'mbarrier_passed' && open[w] !== undefined) {
      if (L.tick[e] > open[w]) L.waits.push([w, open[w], L.tick[e]]);
    }
    if (s.kind === 'named_barrier_sync') (named[L.value[e]] ??= []).push([w, L.tick[e] + 1]);
    if (s.kind === 'named_barrier') {
      for (const [who, since] of named[s.id] ?? []) if (L.tick[e] > since) L.waits.push([who, since, L.tick[e]]);
      named[s.id] = [];
    }
    if (s.kind === 'mbarrier_phase')
      for (const part of lastFree[at] ?? []) if (part.full !== undefined && part.free === undefined && L.tick[e] >= part.full) part.free = L.tick[e];
    if (s.kind === 'tma_load' && s.bytes) {
      const [array, byte] = s.shared[0], key = `${array}+${byte}`, source = L.arrays[s.runs[0][0]].name;
      const r = row(`tma ${key}`, source, [source, byte]);
      const before = r.parts[r.parts.length - 1];
      if (before && before.free === undefined) before.free = L.tick[e];
      const part = { event: e, from: L.tick[e], name: `${source} ${s.from.join(',')}` };
      r.parts.push(part);
      (loads[key] ??= []).push(part);
      if (lastWait[w] && !announced.has(lastWait[w])) (lastFree[lastWait[w]] ??= []).push(part);
    }
    if (s.kind === 'tma_load_done' && loads[at]?.length) {
      const part = loads[at].shift();
      part.full = L.tick[e];
      part.phase = L.value[e];
    }
    if (s.kind === 'cp_async') {
      const g = groups.get(L.value[e]) ?? groups.set(L.value[e], { from: L.tick[e], at: new Map(), waits: 0 }).get(L.value[e]);
      for (const [array, first] of s.runs) g.at.set(array, Math.min(g.at.get(array) ?? Infinity, L.base[e] + first));
      g.event ??= e;
    }
    if (s.kind === 'cp_async_commit') commits[w] = L.value[e] + 1;
    if (s.kind === 'cp_async_wait')
      for (const [group, g] of groups)
        if (group < (commits[w] ?? 0) - L.value[e] && !(g.by ??= new Set()).has(w)) { g.by.add(w); g.full = Math.max(g.full ?? 0, L.tick[e]); }
    if (s.kind === 'wgmma' || s.kind === 'wgmma_wait') {
      const of = products[w] ??= [];
      if (s.kind === 'wgmma' && of[of.length - 1]?.group !== L.value[e]) of.push({ group: L.value[e], event: e, from: L.tick[e] });
      if (s.kind === 'wgmma_wait' && of.length) {
        const pending = L.value[e], last = of[of.length - 1].group;
        for (const p of of) if (p.full === undefined && p.group <= last - pending) p.full = L.tick[e] + 1;
      }
    }
  }
  for (const [group, g] of [...groups].sort((a, b) => a[0] - b[0]))
    for (const [array, byte] of g.at) {
      const r = row(`cp ${array}+${byte}`, L.arrays[array].name, [L.arrays[array].name, byte]);
      const before = r.parts[r.parts.length - 1];
      if (before) before.free = g.from;
      r.parts.push({ event: g.event, from: g.from, full: g.full, name: `group ${group}` });
    }
  L.rings = [...rows.values()].sort((a, b) => a.order[0] < b.order[0] ? -1 : a.order[0] > b.order[0] ? 1 : a.order[1] - b.order[1]);
  const seen = {};
  for (const r of L.rings) {
    const many = L.rings.filter(other => other.label === r.label).length, i = seen[r.label] = (seen[r.label] ?? -1) + 1;
    r.title = many > 1 ? `${r.label} place ${i}` : `${r.label} place`;
  }
  if (L.rings.length > 14) L.rings = L.rings.slice(0, 14);
  L.products = Object.entries(products).filter(([w]) => w % 4 === 0)
    .map(([w, parts]) => ({ title: `wgmma ${w}–${+w + 3}`, parts, products: true }));
}

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

// The first event from tick on (or the last before it) that is chosen; requests to memory rather than others.
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
  state.tick = Math.max(0, Math.min(L.end, Math.round(tick)));
  const warp = state.event >= 0 ? L.warp[state.event] : -1;
  const among = e => telling(e) && matches(e) && L.tick[e] <= state.tick && (warp < 0 || L.warp[e] === warp);
  for (let e = after(state.tick) - 1; e >= 0; e--) if (among(e)) { state.event = e; break; }
  draw(false);
}

// The first event later than tick.
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
// Head, totals, errors

function drawAbout() {
  const blocks = L.grid.reduce((a, b) => a * b), threads = L.threads.reduce((a, b) => a * b), size = xyz => xyz.filter((n, i) => n > 1 || i === 0).join(' × ');
  const cut = L.block.traced ? `traced: block ${L.block.number} of ${number(blocks)}` : `block ${page.launches.find(l => l.block.traced)?.block.number} is not one of its ${blocks}`;
  const full = L.untraced === null || L.block.traced ? '' : `, the trace was full from block ${L.untraced} on`;
  $('#about').innerHTML = `${escape(page.sizes)}${page.sizes ? ' · ' : ''}<b>${escape(L.kernel)}</b> · grid ${size(L.grid)}, ${threads} threads a block · ` +
    `<b>${cut}${full}</b>, ${plural(L.count, 'event')}${page.run.idea ? ` · ${escape(page.run.idea)}` : ''}`;
  const failed = page.run.check === 'FAIL';
  $('#failure').hidden = !failed;
  if (failed) $('#failure').innerHTML = `<b>WRONG</b> ${escape(page.note ? `${page.note}. ` : '')}${escape(reason())}`;
}

const reason = () => page.run.reason.replace(/; SIMT_IGNORE=\S+ lets it pass/, '');

const ROWS = [['global_loads', 'loads'], ['global_load_bytes', 'bytes loaded'], ['global_load_requests', 'load requests'], ['global_load_sectors', 'sectors loaded'],
  ['global_stores', 'stores'], ['global_store_bytes', 'bytes stored'], ['global_store_requests', 'store requests'], ['global_store_sectors', 'sectors stored'],
  ['shared_loads', 'shared loads'], ['shared_stores', 'shared stores'], ['shared_wavefronts', 'wavefronts'], ['shared_wavefronts_ideal', 'ideal wavefronts'],
  ['barriers', 'barriers'], ['atomics', 'atomics']];

function drawTotals() {
  const run = page.run.global_loads === undefined ? null : page.run, counted = L.block.counters;
  const wrong = ROWS.some(([key]) => L.block.traced && L.sums[key] !== counted[key]);
  const cell = (of, key, value) => `<td data-of="${of}" data-counter="${key}">${value === undefined ? '–' : number(value)}</td>`;
  $('#totals').innerHTML = `<p>The first column adds up what this page draws, the others are the counters of the same run: of this block, of all
    blocks of this launch${run ? ', and of the whole run, as <code>make run</code> prints them' : ''}.${wrong ? ' <b class="bad">They differ.</b>' : ''}</p>
    <table><tr><th></th><th>drawn</th><th>block</th><th>launch</th>${run ? '<th>run</th>' : ''}</tr>` +
    ROWS.map(([key, name]) => `<tr><td>${name}</td>${cell('drawn', key, L.sums[key])}${cell('block', key, counted[key])}${cell('launch', key, L.counters[key])}` +
      `${run ? cell('run', key, run[key]) : ''}</tr>`).join('') + '</table>';
}

function showTab(tab) {
  state.tab = tab;
  for (const button of document.querySelectorAll('[data-tab]')) button.classList.toggle('on', button.dataset.tab === tab);
  for (const [name, id] of [['matrices', 'grids'], ['errors', 'errors'], ['totals', 'totals']]) $('#' + id).hidden = name !== tab;
  if (tab === 'matrices') { layoutGrids(); draw(false); }
}

// Those whom reports name, both sides of a race: their line, and the last event of theirs there.
function sides() {
  const text = [page.run.reason, ...L.reports.map(report => report.text)].join(' '), found = new Map();
  const [, name, byte] = text.match(/\((\w+), byte (\d+) of \d+\)/) ?? [], array = L.arrays.findIndex(a => a.name === name);
  const element = array < 0 ? null : { array, index: Math.floor(byte / L.arrays[array].unit) };
  for (const [, x, y, z, verb, at] of text.matchAll(/thread \((\d+),(\d+),(\d+)\)[^;:]*?\b(reads|writes)[^;:]*? at (\S+:\d+)/g)) {
    const thread = +x + L.threads[0] * (+y + L.threads[1] * z), line = page.lines.findIndex(name => name === at || name.endsWith(`/${at}`) || at.endsWith(`/${name}`));
    let event = -1;
    for (let e = 0; e < L.count; e++)
      if (L.warp[e] === thread >> 5 && lineOf(e) === line && lanesOf(shape(e).lanes).includes(thread & 31) && (shape(e).kind === 'load') === (verb === 'reads') && (!element || touches(e, element))) event = e;
    found.set(`${thread} ${at}`, { thread, verb, at, event, element });
  }
  return [...found.values()];
}

const reportLines = () => new Set([...`${page.run.reason} ${L.reports.map(report => report.text).join(' ')}`.matchAll(/([\w./-]+\.(?:cuh?|cpp|h)):(\d+)/g)]
  .map(match => `${match[1].replace(/^.*\//, '')}:${match[2]}`));

function drawErrors() {
  const run = page.run, said = L.reports.map(report => report.text).filter(text => !run.reason.includes(text.slice(0, 60)));
  L.sides = sides();
  $('[data-tab=errors]').hidden = run.check !== 'FAIL' && !L.reports.length;
  $('#errors').innerHTML = said.map(text => `<p>${escape(text)}</p>`).join('') +
    L.sides.map((side, i) => `<p><button data-side="${i}"${side.event < 0 ? ' disabled' : ''}>${side.verb}</button> warp ${side.thread >> 5}, lane ${side.thread & 31}, at ${escape(side.at.replace(/^.*\//, ''))}${side.event < 0 ? ': here the block stopped' : ''}</p>`).join('') +
    (L.sides.length ? '<p>Choose a side: its request, its place in the arrays and its moment are shown. It is framed in red in the time view.</p>' : '') +
    (run.elements ? '<div id="wrong"></div>' : run.map ? `<pre>${escape(run.map)}</pre>` : '');
  if (run.elements) drawWrong($('#wrong'), run.elements);
  document.querySelectorAll('[data-side]').forEach(button => {
    button.onclick = () => { const side = L.sides[button.dataset.side]; Object.assign(state, { lane: side.thread & 31, element: side.element }); setFilter(); chooseEvent(side.event); };
  });
}

// The output as the comparison with the reference left it: "C 33 20: 18.2#".
const WRONG = { '.': ['right', 'good', 0.45], '#': ['wrong', 'bad', 1], '?': ['not a number', 'multiply', 1], '_': ['never written', 'text', 0.75] };

function drawWrong(box, text) {
  const [, name, rows, cols, runs] = text.match(/^(.+) (\d+) (\d+): (.*)$/), marks = [], count = {};
  for (const [, times, mark] of runs.matchAll(/(\d+)(\D)/g)) {
    count[mark] = (count[mark] ?? 0) + +times;
    for (let i = 0; i < times; i++) marks.push(mark);
  }
  const cell = Math.max(1, Math.min(14, Math.min(330 / cols, ($('#matrices').clientHeight - 165) / rows) >= 2 ? Math.floor(Math.min(330 / cols, ($('#matrices').clientHeight - 165) / rows)) : 1)), canvas = Object.assign(document.createElement('canvas'), { width: cols * cell, height: rows * cell });
  box.innerHTML = `<p><b>${escape(name)}</b> ${rows} × ${cols}:${Object.entries(count).map(([mark, n]) => `<span class="key" style="background:var(--${WRONG[mark][1]})"></span>${number(n)} ${WRONG[mark][0]}`).join('')}</p>`;
  const said = Object.assign(document.createElement('p'), { textContent: 'Point at an element; choose it to see who writes it.' }), context = canvas.getContext('2d');
  marks.forEach((mark, i) => {
    context.globalAlpha = WRONG[mark][2];
    context.fillStyle = css(WRONG[mark][1]);
    context.fillRect(i % cols * cell, Math.floor(i / cols) * cell, cell - (cell > 4), cell - (cell > 4));
  });
  const array = L.arrays.findIndex(a => a.name === name && a.space === 'global');
  const index = event => Math.floor(event.offsetY / cell) * cols + Math.floor(event.offsetX / cell);
  canvas.onmousemove = event => {
    const i = index(event);
    said.textContent = marks[i] ? `${name}[${Math.floor(i / cols)}][${i % cols}] is ${WRONG[marks[i]][0]}` : '';
    if (array >= 0 && marks[i]) { state.hover = { array, index: i }; drawElement(); }
  };
  canvas.onmouseleave = () => { state.hover = null; drawElement(); };
  canvas.onclick = event => { if (array >= 0) chooseElement({ array, index: index(event) }); };
  box.append(canvas, said);
}

// --------------------------------------------------------------------------------------------------------------------
// Source

function buildSource() {
  const table = ['<table><thead><tr><th>requests</th><th>sectors</th><th>wavefronts</th><th></th><th></th></tr></thead><tbody>'];
  const byFile = new Map();
  page.lines.forEach((text, line) => {
    const cut = text.lastIndexOf(':'), file = text.slice(0, cut);
    if (!byFile.has(file)) byFile.set(file, new Map());
    byFile.get(file).set(+text.slice(cut + 1), line);
  });
  const used = file => [...byFile.get(file).values()].reduce((n, line) => n + (L.perLine.get(line)?.events.length ?? 0), 0);
  const named = reportLines();
  const files = Object.keys(page.sources).filter(used).sort((a, b) => used(b) - used(a));
  files.sort((a, b) => (b === L.home) - (a === L.home));
  for (const file of files) {
    table.push(`<tr class="file"><td colspan="5">${escape(file)}</td></tr>`);
    let comment = false;
    page.sources[file].split('\n').forEach((text, i) => {
      const line = byFile.get(file).get(i + 1) ?? -1, of = L.perLine.get(line), begins = text.indexOf('/*'), ends = text.indexOf('*/');
      const whole = comment || /^\s*(\/\/|\/\*)/.test(text);
      if (begins >= 0 && ends < begins) comment = true; else if (ends >= 0) comment = false;
      const split = whole ? 0 : text.search(/\/\*|\/\//), code = whole ? '' : split < 0 ? text : text.slice(0, split), rest = whole ? text : split < 0 ? '' : text.slice(split);
      const worse = of ? of.wavefronts - of.ideal : 0, kind = of && Object.entries(of.kinds).sort((a, b) => b[1] - a[1])[0][0];
      const cells = of ? [of.requests || '', of.sectors || '', of.wavefronts || ''].map(n => n && number(n)) : ['', '', ''];
      if (worse > 0) cells[2] += ` <span class="bad" title="beyond the ideal: bank conflicts">+${number(worse)}</span>`;
      const indent = Math.min(16, text.match(/^ */)[0].length), shown = (text, first) => escape(first ? ' '.repeat(indent) + text.trimStart() : text);
      table.push(`<tr${of ? ` class="count" data-line="${line}" style="--hue:var(--${kind})"` : ''} data-at="${escape(file.replace(/^.*\//, ''))}:${i + 1}">` +
        cells.map(cell => `<td class="n">${cell}</td>`).join('') +
        `<td class="n">${i + 1}</td><td class="code" style="--indent:${indent}">${shown(code, code.trim())}<span class="comment">${shown(rest, whole)}</span></td></tr>`);
    });
  }
  $('#source .scroll').innerHTML = table.join('') + '</tbody></table>';
  for (const tr of document.querySelectorAll('#source tr[data-at]')) tr.classList.toggle('report', named.has(tr.dataset.at));
  L.rows = new Map([...document.querySelectorAll('#source tr[data-line]')].map(tr => [+tr.dataset.line, tr]));
  const first = $('#source tr.report') ?? $('#source tr.count');
  if (first) $('#source .scroll').scrollTop = first.offsetTop - 120;
}

function markSource() {
  const now = state.event >= 0 ? lineOf(state.event) : -1, touched = new Set();
  if (state.element) for (let e = 0; e < L.count; e++) if (L.match[e]) touched.add(lineOf(e));
  for (const [line, tr] of L.rows) {
    tr.classList.toggle('now', line === now);
    tr.classList.toggle('chosen', line === state.line);
    tr.classList.toggle('touch', touched.has(line));
  }
}

// --------------------------------------------------------------------------------------------------------------------
// Matrices

function buildGrids() {
  const box = $('#grids');
  box.innerHTML = '';
  L.views = [];
  L.arrays.forEach((a, array) => {
    a.view = null;
    if (!a.events.length) return;
    const cols = a.shape.length ? a.shape[a.shape.length - 1] : a.space === 'shared' ? 32 * 4 / a.unit : Math.min(128, a.total.reads.length);
    const v = { array, a, cols, r0: Infinity, r1: -1, c0: Infinity, c1: -1 };
    for (let i = 0; i < a.total.reads.length; i++)
      if (a.total.reads[i] || a.total.writes[i]) {
        const r = Math.floor(i / cols), c = i % cols;
        v.r0 = Math.min(v.r0, r); v.r1 = Math.max(v.r1, r); v.c0 = Math.min(v.c0, c); v.c1 = Math.max(v.c1, c);
      }
    if (v.r1 < 0) return;
    v.nr = v.r1 - v.r0 + 1;
    v.nc = v.c1 - v.c0 + 1;
    v.fold = v.nc > 256 ? 128 : v.nc;
    if (!a.shape.length && v.nr > 96) { v.fold = v.nc; v.wide = Math.ceil(Math.sqrt(v.nr * v.nc * 1.2) / v.nc); }   // pieces side by side
    v.pieces = Math.ceil(v.nc / v.fold);
    v.W = v.fold * (v.wide ?? 1);
    v.H = Math.ceil(v.nr * v.pieces / (v.wide ?? 1));
    v.image = new ImageData(v.W, v.H);
    v.small = Object.assign(document.createElement('canvas'), { width: v.W, height: v.H });
    v.figure = document.createElement('figure');
    const all = Math.ceil(a.total.reads.length / cols), part = v.nr < all || v.nc < cols;
    v.about = a.shape.length ? a.shape.filter((n, i) => n > 1 || i >= a.shape.length - 2).join(' × ') : `${number(a.bytes)} B`;
    v.part = part && a.shape.length ? `[${v.r0}–${v.r1}][${v.c0}–${v.c1}]` : a.shape.length ? '' : a.space === 'shared' ? '32 banks across' : '';
    v.figure.innerHTML = `<figcaption><b>${escape(a.name)}</b>${a.space === 'shared' ? ' shared' : ''} ${v.about}<br>${v.part || 'all of it'}</figcaption><canvas></canvas>`;
    v.canvas = $('canvas', v.figure);
    v.canvas.dataset.array = a.name;
    v.canvas.onmousemove = event => { state.hover = at(v, event); drawElement(); };
    v.canvas.onmouseleave = () => { state.hover = null; drawElement(); };
    v.canvas.onclick = event => chooseElement(at(v, event));
    box.append(v.figure);
    a.view = v;
    L.views.push(v);
  });
  L.counted = 0;
  L.reach = 0;
}

function cellOf(v, index) {
  const r = Math.floor(index / v.cols) - v.r0, c = index % v.cols - v.c0;
  if (r < 0 || c < 0 || r >= v.nr || c >= v.nc) return null;
  if (v.wide) return [c + (Math.floor(r / v.H)) * v.fold, r % v.H];
  return [c % v.fold, r * v.pieces + Math.floor(c / v.fold)];
}

function at(v, event) {
  const box = v.canvas.getBoundingClientRect(), x = Math.floor((event.clientX - box.left - 1) / v.cell), y = Math.floor((event.clientY - box.top - 1) / v.cell);
  if (x < 0 || y < 0 || x >= v.W || y >= v.H) return null;
  const r = v.wide ? Math.floor(x / v.fold) * v.H + y : Math.floor(y / v.pieces), c = v.wide ? x % v.fold : y % v.pieces * v.fold + x;
  const index = (r + v.r0) * v.cols + c + v.c0;
  return r < v.nr && c < v.nc && index < v.a.total.reads.length ? { array: v.array, index } : null;
}

// Puts the grids where they fit, with the largest cells that do. A product's A, B and C stand as the product is written.
function layoutGrids() {
  const box = $('#grids'), width = box.clientWidth - 18, height = box.clientHeight - 14, CAPTION = 28, GAP = 10;
  if (width < 50) return;
  const named = name => L.views.find(v => v.a.name === name && v.a.space === 'global' && v.a.shape.length === 2);
  const [A, B, C] = ['A', 'B', 'C'].map(named), product = A && B && C && A.W + C.W < 600 ? [A, B, C] : [];
  const single = L.views.filter(v => !product.includes(v));
  const text = v => Math.max(v.a.name.length * 7 + v.about.length * 5.6 + (v.a.space === 'shared' ? 46 : 8), v.part.length * 5.6);
  const arrange = (cell, grow) => {
    const spots = [];
    let x = 0, y = 0, shelf = 0, right = 0, bottom = 0;
    const put = (v, size, left, top) => { spots.push([v, size, left, top]); right = Math.max(right, left + v.W * size); bottom = Math.max(bottom, top + CAPTION + v.H * size); };
    if (product.length) {
      const left = Math.max(A.W * cell, text(A)) + GAP, top = CAPTION + B.H * cell + GAP;
      put(B, cell, left, 0);
      put(A, cell, 0, top);
      put(C, cell, left, top);
      y = top + CAPTION + Math.max(A.H, C.H) * cell + GAP;
    }
    for (const v of single) {
      const size = Math.max(cell, Math.min(8, Math.floor(Math.min(grow / v.W, grow / v.H)))), wide = Math.max(v.W * size, text(v));
      if (x > 0 && x + wide > width) { x = 0; y += shelf + GAP; shelf = 0; }
      put(v, size, x, y);
      x += wide + GAP;
      shelf = Math.max(shelf, CAPTION + v.H * size);
    }
    return { spots, fits: right <= width && bottom <= height, narrow: right <= width };
  };
  const sizes = [14, 12, 10, 9, 8, 7, 6, 5, 4, 3.5, 3, 2.5, 2, 1.75, 1.5, 1.25, 1, 0.75, 0.6, 0.5, 0.4, 0.33];
  let found = null;
  for (const grow of [64, 32, 0])
    for (const cell of sizes) if (!found && (cell >= 1.25 || grow === 0)) { const tried = arrange(cell, grow); if (tried.fits) found = tried; }
  for (const cell of [1, 0.75, 0.5]) found ??= (tried => tried.narrow || cell === 0.5 ? tried : null)(arrange(cell, 0));
  for (const [v, size, left, top] of found.spots) {
    const ratio = devicePixelRatio || 1;
    v.cell = size;
    Object.assign(v.figure.style, { left: `${left + 8}px`, top: `${top + 6}px` });
    Object.assign(v.canvas, { width: Math.round(v.W * size * ratio), height: Math.round(v.H * size * ratio) });
    Object.assign(v.canvas.style, { width: `${v.W * size + 2}px`, height: `${v.H * size + 2}px` });
  }
}

// What was touched up to now, by element.
function countUntil(tick) {
  if (!L.counted || L.reach > tick) {
    for (const a of L.arrays) a.now = { reads: new Uint32Array(a.total.reads.length), writes: new Uint32Array(a.total.reads.length) };
    L.counted = 0;
  }
  const end = after(tick);
  for (let e = L.counted; e < end; e++)
    accesses(e, (lane, array, byte, bytes, writes) => {
      const a = L.arrays[array], of = writes ? a.now.writes : a.now.reads;
      for (let i = Math.floor(byte / a.unit); i * a.unit < byte + bytes && i < of.length; i++) of[i]++;
    });
  L.counted = end || 0;
  L.reach = tick;
}

// The tile of an array at this moment: a box that was copied as one, or what the block touched between two barriers, or what each
// warp touched last.
function tile(a) {
  const found = new Set(), list = a.events;
  let last = -1;
  for (let low = 0, high = list.length - 1; low <= high;) {
    const middle = low + high >> 1;
    if (L.tick[list[middle]] <= state.tick) { last = middle; low = middle + 1; } else high = middle - 1;
  }
  if (last < 0) return found;
  const add = e => accesses(e, (lane, array, byte, bytes) => {
    if (L.arrays[array] === a) for (let i = Math.floor(byte / a.unit); i * a.unit < byte + bytes; i++) found.add(i);
  });
  if (shape(list[last]).kind.startsWith('tma')) add(list[last]);
  else if (L.walls.length > 2) {
    const tick = L.tick[list[last]], next = L.walls.find(wall => wall >= tick) ?? Infinity, before = [...L.walls].reverse().find(wall => wall < tick) ?? -1;
    for (let i = last; i >= 0 && L.tick[list[i]] > before; i--) add(list[i]);
    for (let i = last + 1; i < list.length && L.tick[list[i]] < next; i++) add(list[i]);
  } else {
    const seen = new Set();
    for (let i = last; i >= 0 && i > last - 2000 && seen.size < L.warps; i--)
      if (!seen.has(L.warp[list[i]])) { seen.add(L.warp[list[i]]); add(list[i]); }
  }
  return found;
}

const rgb = (() => {
  const probe = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  return colour => { probe.fillStyle = colour; probe.fillRect(0, 0, 1, 1); return [...probe.getImageData(0, 0, 1, 1).data].slice(0, 3); };
})();
const css = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const mix = (a, b, t) => a.map((value, i) => value + (b[i] - value) * t);

function drawGrids() {
  if (state.tab !== 'matrices') { drawElement(); return; }
  countUntil(state.tick);
  const none = rgb(css('cell')), read = rgb(css('load')), write = rgb(css('store')), both = mix(read, write, 0.5), ratio = devicePixelRatio || 1;
  const mine = new Map();   // array: Map(index: lane), of the chosen request
  if (state.event >= 0)
    accesses(state.event, (lane, array, byte, bytes) => {
      const a = L.arrays[array], of = mine.get(array) ?? mine.set(array, new Map()).get(array);
      for (let i = Math.floor(byte / a.unit); i * a.unit < byte + bytes; i++) of.set(i, lane);
    });
  const thread = new Map();   // what the chosen lane touches in the whole run
  if (state.lane >= 0 && state.event >= 0)
    for (let e = 0; e < L.count; e++)
      if (L.warp[e] === L.warp[state.event])
        accesses(e, (lane, array, byte, bytes) => {
          const a = L.arrays[array], of = thread.get(array) ?? thread.set(array, new Set()).get(array);
          if (lane === state.lane) for (let i = Math.floor(byte / a.unit); i * a.unit < byte + bytes; i++) of.add(i);
        });
  for (const v of L.views) {
    const { a, image, canvas } = v, strength = n => 0.34 + 0.56 * Math.log2(1 + n) / Math.log2(1 + a.most);
    const data = image.data, lanes = mine.get(v.array) ?? new Map(), own = thread.get(v.array), now = tile(a);
    let x0 = Infinity, y0 = Infinity, x1 = -1, y1 = -1;
    const context = canvas.getContext('2d'), size = v.cell * ratio;
    data.fill(0);
    for (let r = 0; r < v.nr; r++)
      for (let c = 0; c < v.nc; c++) {
        const i = (r + v.r0) * v.cols + c + v.c0;
        if (i >= a.total.reads.length) continue;
        const [x, y] = cellOf(v, i), reads = a.now.reads[i], writes = a.now.writes[i];
        let colour = none;
        if (reads || writes) colour = mix(none, reads ? writes ? both : read : write, strength(reads + writes));
        else if (a.total.reads[i] || a.total.writes[i]) colour = mix(none, a.total.reads[i] ? a.total.writes[i] ? both : read : write, 0.13);
        if (state.lane >= 0 && own && !own.has(i)) colour = mix(colour, none, 0.7);
        if (now.has(i)) { x0 = Math.min(x0, x); y0 = Math.min(y0, y); x1 = Math.max(x1, x); y1 = Math.max(y1, y); }
        data.set([...colour, 255], (y * v.W + x) * 4);
      }
    v.small.getContext('2d').putImageData(image, 0, 0);
    context.imageSmoothingEnabled = v.cell < 1;
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.drawImage(v.small, 0, 0, v.W * size, v.H * size);
    if (v.cell >= 7) {
      context.fillStyle = css('panel');
      for (let x = 1; x < v.W; x++) context.fillRect(Math.round(x * size), 0, 1, canvas.height);
      for (let y = 1; y < v.H; y++) context.fillRect(0, Math.round(y * size), canvas.width, 1);
    }
    for (const [i, lane] of lanes) {
      const spot = cellOf(v, i);
      if (!spot) continue;
      context.fillStyle = lane < 0 ? css('engine') : state.lane >= 0 && lane !== state.lane ? css('dim') : laneColour(lane);
      context.fillRect(Math.floor(spot[0] * size), Math.floor(spot[1] * size), Math.max(size, 1.5), Math.max(size, 1.5));
    }
    const frame = (x, y, w, h, colour, thick) => {
      context.strokeStyle = colour;
      context.lineWidth = thick * ratio;
      context.strokeRect(x * size - ratio / 2, y * size - ratio / 2, w * size + ratio, h * size + ratio);
    };
    if (x1 >= 0) frame(x0, y0, x1 - x0 + 1, y1 - y0 + 1, css('chosen'), 1.5);
    const held = (state.element && state.copies || []).filter(copy => L.tick[copy.from] <= state.tick && (copy.to === L.count || L.tick[copy.to] > state.tick));
    for (const element of [state.hover, state.element, ...held])
      if (element?.array === v.array) {
        const spot = cellOf(v, element.index);
        if (spot) { frame(spot[0] - 0.5, spot[1] - 0.5, 2, 2, css('panel'), 3); frame(spot[0] - 0.5, spot[1] - 0.5, 2, 2, css('text'), 1.5); }
      }
  }
  drawElement();
}

// Where an element of global memory lies in shared memory: a lane loads it and the same source line stores it there, until another
// store overwrites it. As [{array, index, from, to}], by events.
function copies({ array, index }) {
  const found = [];
  if (L.arrays[array].space !== 'global') return found;
  for (const e of L.arrays[array].events) {
    if (shape(e).kind !== 'load') continue;
    const lanes = new Set();
    accesses(e, (lane, of, byte, bytes) => {
      const unit = L.arrays[array].unit, offset = index * unit - byte;
      if (of === array && offset >= 0 && offset < bytes) lanes.add(`${lane} ${offset}`);
    });
    if (!lanes.size) continue;
    let next = e + 1;
    while (next < L.count && (L.warp[next] !== L.warp[e] || !MEMORY.has(shape(next).kind))) next++;
    if (next >= L.count || shape(next).kind !== 'store' || shape(next).space !== 'shared' || lineOf(next) !== lineOf(e)) continue;
    accesses(next, (lane, of, byte) => {
      for (const who of lanes) {
        const [mine, offset] = who.split(' ').map(Number), a = L.arrays[of];
        if (mine !== lane) continue;
        const place = { array: of, index: Math.floor((byte + offset) / a.unit), from: next, to: L.count };
        for (const later of a.events)
          if (later > next && shape(later).kind === 'store' && touches(later, place)) { place.to = later; break; }
        found.push(place);
      }
    });
  }
  return found;
}

// By line: how often an element is read and written, by which warps and lanes.
function users({ array, index, from = -1, to = L.count }, by = { reads: new Map(), writes: new Map() }) {
  const a = L.arrays[array];
  for (const e of a.events) {
    if (e <= from || e >= to) continue;
    accesses(e, (lane, of, byte, bytes, writes) => {
      if (of !== array || byte >= (index + 1) * a.unit || byte + bytes <= index * a.unit) return;
      const lines = writes ? by.writes : by.reads, line = lineOf(e);
      const found = lines.get(line) ?? lines.set(line, { times: 0, warps: new Set(), lanes: new Set() }).get(line);
      found.times++;
      if (L.warp[e] >= 0) found.warps.add(L.warp[e]);
      if (lane >= 0) found.lanes.add(lane);
    });
  }
  return by;
}

// Who touches the element under the mouse, or the chosen one.
function drawElement() {
  const element = state.hover ?? state.element, box = $('#element');
  if (!element) { box.innerHTML = state.tab === 'matrices' ? 'Point at an element: who touches it, how often, from which line.' : ''; return; }
  const name = of => `<b>${escape(place(of.array, of.index * L.arrays[of.array].unit))}</b>`;
  const tell = (verb, of) => [...of].map(([line, found]) => `${verb} ${plural(found.times, 'time')} by warp${found.warps.size > 1 ? 's' : ''} ${ranges(found.warps)}` +
    `${found.lanes.size ? `, lane${found.lanes.size > 1 ? 's' : ''} ${ranges(found.lanes)}` : ', copied'}${line >= 0 ? ` (${lineText(line)})` : ''}`);
  const by = users(element), said = [...tell('read', by.reads), ...tell('written', by.writes)], there = copies(element), read = { reads: new Map(), writes: new Map() };
  for (const copy of there) users(copy, read);
  box.innerHTML = `${name(element)} ${said.length ? escape(said.join('; ')) : 'is not touched by this block'}.` +
    (there.length ? ` From ${name(there[0])}${there.length > 1 ? ` (${plural(there.length, 'copy').replace('copys', 'copies')})` : ''}: ${escape(tell('read', read.reads).join('; ') || 'never read')}.` : '');
}

// --------------------------------------------------------------------------------------------------------------------
// Request: sectors or banks

const laneStrip = (s, x, width) => [...Array(32).keys()].map(lane => {
  const on = lanesOf(s.lanes).includes(lane), chosen = state.lane === lane;
  return `<g data-lane="${lane}"><rect x="${x + lane * width}" y="12" width="${width - 1}" height="11" rx="2" fill="${on ? laneColour(lane) : 'var(--cell)'}"
    ${chosen ? 'stroke="var(--text)" stroke-width="2"' : ''}/>${lane % 4 === 0 || chosen ? `<text x="${x + lane * width + width / 2}" y="9" text-anchor="middle" class="${chosen ? 'on' : ''}">${lane}</text>` : ''}</g>`;
}).join('');

const fade = lane => state.lane >= 0 && state.lane !== lane ? ' opacity="0.25"' : '';

function drawRequest() {
  const box = $('#request .scroll'), e = state.event;
  $('#request h2 small').textContent = e >= 0 ? `${describe(e)} · tick ${number(L.tick[e])}` : '';
  $('#request h2 small').title = e >= 0 ? describe(e) : '';
  if (e < 0) { box.innerHTML = '<p>Choose a source line, an element or a moment: the request that belongs to it is shown here, lane by lane.</p>'; return; }
  const s = shape(e);
  if ((s.kind === 'load' || s.kind === 'store') && s.space === 'global') drawSectors(box, e, s);
  else if (s.kind === 'load' || s.kind === 'store') drawBanks(box, e, s);
  else if (WALLS.has(s.kind)) drawBarrier(box, e);
  else box.innerHTML = `<p>${escape(describe(e))}.</p>` + (s.box ? `<p>The box begins at ${escape(s.from.join(', '))} (fastest dimension first) and is ${s.box.join(' × ')} elements of
      ${s.element_bytes} bytes: ${number(s.bytes)} bytes in ${number(s.sectors)} sectors of global memory, ${number(s.wavefronts)} wavefronts of shared memory${s.swizzle ? `, swizzled over ${s.swizzle} bytes` : ''}.
      One thread orders it; the copy engine does the rest.</p>` : '') + (s.runs.length && MEMORY.has(s.kind) ? `<p>${s.runs.map(([array, first]) => place(array, L.base[e] + first)).join(', ')}</p>` : '');
}

function drawSectors(box, e, s) {
  const found = sectors(e), lanes = lanesOf(s.lanes), wanted = found.wanted.size, moved = found.sectors.size * 32, x = 62, width = 9.6;
  const lines = [...found.lines.values()].sort((a, b) => a.array - b.array || a.byte - b.byte), high = Math.max(5, Math.min(15, 300 / lines.length)), top = 50;
  const share = Math.round(100 * wanted / moved);
  const parts = [laneStrip(s, x, width)], links = [];
  lines.forEach((line, i) => {
    const y = top + i * (high + 2), begin = L.arrays[line.array].begin;
    for (let sector = 0; sector < 4; sector++) {
      const moves = found.sectors.has(line.array * 2 ** 40 + Math.floor((line.byte + begin) / 32) + sector);
      parts.push(`<rect x="${x + sector * width * 8}" y="${y}" width="${width * 8 - 2}" height="${high}" rx="1.5" fill="${moves ? 'color-mix(in srgb, var(--load) 22%, var(--panel))' : 'none'}" stroke="${moves ? 'var(--load)' : 'var(--rule)'}" stroke-width="${moves ? 0.8 : 0.5}"/>`);
    }
    const many = new Map();
    for (const want of line.wants) many.set(want.at, (many.get(want.at) ?? 0) + 1);
    for (const want of line.wants) {
      const left = x + want.at / 4 * width, wide = Math.min(want.bytes, 128 - want.at) / 4 * width;
      parts.push(`<rect data-lane="${want.lane}" x="${left}" y="${y + 1}" width="${Math.max(wide - 1, 1)}" height="${high - 2}" fill="${laneColour(want.lane)}"${fade(want.lane)}/>`);
      const from = x + want.lane * width + width / 2, to = left + wide / 2;
      links.push(`<path d="M${from} 23C${from} 38 ${to} ${y - 14} ${to} ${y}" fill="none" stroke="${laneColour(want.lane)}" stroke-width="${state.lane === want.lane ? 2 : 0.7}" opacity="${state.lane < 0 ? 0.4 : state.lane === want.lane ? 1 : 0.06}"/>`);
    }
    for (const [byte, times] of many) if (times > 1 && high >= 9) parts.push(`<text class="on" x="${x + byte / 4 * width + width / 2}" y="${y + high + 9}" text-anchor="middle">×${times}</text>`);
    if (high >= 9 || i % Math.ceil(11 / (high + 2)) === 0) parts.push(`<text x="${x - 4}" y="${y + high / 2 + 3}" text-anchor="end">${escape(place(line.array, Math.max(0, line.byte)))}</text>`);
  });
  const bar = (name, bytes, most, colour) => `<div class="bar"><span>${name}</span><i style="width:${Math.max(1, 100 * bytes / most)}%;background:var(--${colour})"></i><span>${number(bytes)} B</span></div>`;
  box.innerHTML = `<p>${plural(lanes.length, 'lane')} → <b>${plural(found.sectors.size, 'sector')}</b> of 32 bytes → ${plural(lines.length, 'line')} of 128 bytes</p>
    ${bar('wanted', wanted, moved, share === 100 ? 'good' : 'chosen')}${bar('moved', moved, moved, 'load')}<p>${share} % of what moves is wanted${wanted < lanes.length * s.bytes ? '; several lanes want the same' : ''}.</p>
    <svg width="372" height="${top + lines.length * (high + 2) + 12}">${links.join('')}${parts.join('')}</svg>`;
}

// What a barrier keeps apart: elements that one thread writes on one side of it and another thread touches on the other.
function drawBarrier(box, e) {
  const wall = L.walls.indexOf(L.tick[e]), sides = [new Map(), new Map()], from = L.walls[wall - 1] ?? -1, to = L.walls[wall + 1] ?? Infinity;
  for (let i = 0; i < L.count && L.tick[i] < to; i++) {
    if (L.tick[i] <= from || !MEMORY.has(shape(i).kind)) continue;
    const side = sides[+(L.tick[i] > L.tick[e])];
    accesses(i, (lane, array, byte, bytes, writes) => {
      for (let at = byte; at < byte + bytes; at += Math.min(4, bytes)) {
        const key = array * 2 ** 40 + at, of = side.get(key) ?? side.set(key, new Map()).get(key), what = `${lineOf(i)} ${writes ? 'writes' : 'reads'}`, thread = L.warp[i] * 32 + lane;
        of.set(what, of.has(what) && of.get(what) !== thread ? -1 : thread);
      }
    });
  }
  const pairs = new Map();
  for (const [key, before] of sides[0])
    for (const [what, who] of before)
      for (const [then, other] of sides[1].get(key) ?? [])
        if ((what.endsWith('writes') || then.endsWith('writes')) && (who < 0 || who !== other)) {
          const pair = `${Math.floor(key / 2 ** 40)} ${what} ${then}`;
          pairs.set(pair, (pairs.get(pair) ?? 0) + 1);
        }
  const link = line => line < 0 ? 'an unknown line' : `<a href="#" data-go="${line}">${escape(lineText(+line))}</a>`;
  const rows = [...pairs].sort((a, b) => b[1] - a[1]).map(([pair, times]) => {
    const [array, line, verb, other, then] = pair.split(' ');
    return `<tr><td><b>${escape(L.arrays[array].name)}</b></td><td>${link(line)} ${verb}</td><td>→</td><td>${link(other)} ${then}</td><td>${number(times)}</td></tr>`;
  });
  box.innerHTML = `<p>Barrier ${wall + 1} of ${L.walls.length}: ${escape(describe(e))}.</p>` + (rows.length ? `<h3>What it keeps apart</h3>
    <p>Elements that one thread touches before it and another after it, at least one of them writing:</p><table class="pairs"><tr><th></th><th>before</th><th></th><th>after</th><th>elements</th></tr>${rows.join('')}</table>` :
    '<p>Between the barriers around it, no thread touches what another one writes on the other side.</p>');
  box.querySelectorAll('[data-go]').forEach(go => { go.onclick = event => { event.preventDefault(); chooseLine(+go.dataset.go); }; });
}

function drawBanks(box, e, s) {
  const fronts = banks(e), x = 62, width = 9.6, top = 52, high = Math.max(6, Math.min(15, 240 / fronts.length)), parts = [laneStrip(s, x, width)], links = [];
  parts.push(...[...Array(32).keys()].filter(bank => bank % 4 === 0).map(bank => `<text x="${x + bank * width + width / 2}" y="${top - 4}" text-anchor="middle">${bank}</text>`));
  parts.push(`<text x="${x - 4}" y="${top - 4}" text-anchor="end">bank</text><text x="${x - 4}" y="21" text-anchor="end">lane</text>`);
  fronts.forEach((front, i) => {
    const y = top + i * (high + 1.5);
    parts.push(`<rect x="${x - 1}" y="${y}" width="${32 * width + 1}" height="${high}" fill="var(--cell)" rx="1.5"/>`);
    if (high >= 8 || i % 3 === 0) parts.push(`<text x="${x - 4}" y="${y + high / 2 + 3}" text-anchor="end">wavefront ${i + 1}</text>`);
    for (const [bank, { lanes }] of front.banks) {
      const own = lanes.includes(state.lane) ? state.lane : lanes[0];
      parts.push(`<g data-lane="${lanes[0]}"><title>bank ${bank}: lanes ${ranges(lanes)}</title><rect x="${x + bank * width}" y="${y + 0.5}" width="${width - 1}" height="${high - 1}" rx="1" fill="${laneColour(own)}"${state.lane >= 0 && !lanes.includes(state.lane) ? ' opacity="0.25"' : ''}/>` +
        (lanes.length > 1 && high >= 9 ? `<text x="${x + bank * width + width / 2 - 0.5}" y="${y + high / 2 + 3}" text-anchor="middle" style="fill:#fff;font-size:7.5px">${lanes.length}</text>` : '') + '</g>');
      for (const lane of lanes) {
        const from = x + lane * width + width / 2, to = x + bank * width + width / 2;
        links.push(`<path d="M${from} 23C${from} 34 ${to} ${Math.min(y - 8, 40)} ${to} ${y}" fill="none" stroke="${laneColour(lane)}" stroke-width="${state.lane === lane ? 2 : 0.6}" opacity="${state.lane < 0 ? 0.28 : state.lane === lane ? 1 : 0.05}"/>`);
      }
    }
  });
  const bytes = s.bytes, shared = fronts.some(front => [...front.banks.values()].some(of => of.lanes.length > 1));
  const excess = fronts.length - s.ideal;
  box.innerHTML = `<p><b>${plural(fronts.length, 'wavefront')}</b>, ideal ${s.ideal}${excess ? `: <b style="color:var(--bad)">${plural(excess, 'conflict')}</b>` : ', no conflict'} ·
    ${plural(lanesOf(s.lanes).length, 'lane')} × ${bytes} bytes${shared ? '; a number: so many lanes share the word' : ''}</p>
    <svg width="372" height="${top + fronts.length * (high + 1.5) + 2}">${links.join('')}${parts.join('')}</svg><div id="whatif"></div>`;
  drawWhatIf($('#whatif'), e, s);
}

// The wavefronts of this line if the array's rows had another pitch, or their words were swizzled.
function drawWhatIf(box, e, s) {
  const array = s.runs[0]?.[0], a = L.arrays[array];
  if (a === undefined) return;
  const declared = a.shape.length > 1 ? a.shape[a.shape.length - 1] * a.unit / 4 : 0, pitch = declared || a.pitch;
  const events = (L.perLine.get(s.line)?.events ?? [e]).filter(i => shape(i).kind === s.kind && shape(i).space === 'shared' && shape(i).runs[0]?.[0] === array).slice(0, 1024);
  const words = Math.max(s.bytes >> 2, 1), repitch = to => word => Math.floor(word / pitch) * to + word % pitch;
  const swizzle = word => { const row = Math.floor(word / pitch), col = word % pitch; return row * pitch + (((col / words | 0) ^ row % Math.max(1, pitch / words)) * words + col % words); };
  const sum = where => events.reduce((total, i) => total + banks(i, where).length, 0), ideal = events.reduce((total, i) => total + shape(i).ideal, 0);
  const tries = !pitch ? [] : [...new Set([pitch - 1, pitch, pitch + 1, pitch + 2, pitch + 4, pitch + 8])].filter(p => p > 0 && p % words === 0 && p >= pitch - 1);
  const power = declared && (pitch & pitch - 1) === 0 && pitch > words, rows = tries.map(p => [`${p} words`, sum(repitch(p)), p === pitch]);
  if (power) rows.push(['XOR swizzle', sum(swizzle), false]);
  const most = Math.max(...rows.map(row => row[1]));
  box.innerHTML = `<h3>If rows of ${escape(a.name)} had another length</h3>` +
    (declared ? '' : `<p>Its declaration does not tell how long a row is: <input type="number" min="1" max="4096" placeholder="words" value="${pitch ?? ''}"> words</p>`) +
    (pitch ? `<p>wavefronts of ${escape(lineText(s.line))} in this block${events.length === 1024 ? ', first 1,024 requests' : ''}; ideal ${number(ideal)}</p>` : '') +
    rows.map(([name, value, now]) => `<div class="bar${now ? ' now' : ''}${value > ideal ? ' bad' : ''}"><span>${name}${now ? ', as it is' : ''}</span><i style="width:${100 * value / most}%"></i><span>${number(value)}</span></div>`).join('');
  const input = $('input', box);
  if (input) input.onchange = () => { a.pitch = +input.value > 0 ? +input.value : undefined; draw(false); };
}

// --------------------------------------------------------------------------------------------------------------------
// Time

const LEFT = 82, AXIS = 14;

function timeRows() {
  return [...Array(L.warps).keys()].map(w => ({ title: `warp ${w}`, warp: w })).concat(L.products, L.rings);
}

function fitCanvas(canvas) {
  const ratio = devicePixelRatio || 1, { clientWidth: width, clientHeight: height } = canvas;
  Object.assign(canvas, { width: width * ratio, height: height * ratio });
  const context = canvas.getContext('2d');
  context.scale(ratio, ratio);
  return { context, width, height };
}

const xOf = (tick, width) => LEFT + (tick - state.from) / (state.to - state.from) * (width - LEFT - 4);
const tickAt = (x, width) => state.from + (x - LEFT) / (width - LEFT - 4) * (state.to - state.from);

function drawLanes() {
  const { context, width, height } = fitCanvas($('#lanes')), rows = timeRows(), high = (height - AXIS) / rows.length, gap = high > 6 ? 1.5 : 0.5;
  const colours = Object.fromEntries([...Object.keys(KINDS), 'wall', 'dim', 'rule', 'text', 'soft', 'chosen', 'good', 'panel'].map(name => [name, css(name)]));
  const every = Math.ceil(8.5 / high);
  L.high = high;
  context.font = `${high < 10 ? 8.5 : 10}px system-ui, sans-serif`;
  context.textBaseline = 'middle';
  rows.forEach((row, i) => {
    const y = AXIS + i * high;
    context.fillStyle = colours.soft;
    if (i % 2 === 0) context.fillRect(LEFT, y, width, high);
    context.fillStyle = colours.dim;
    if (row.warp === undefined ? high > 7 : i % every === 0) context.fillText(row.title, 2, y + high / 2);
  });
  const span = state.to - state.from, unit = 10 ** Math.floor(Math.log10(span / 6)), mark = [1, 2, 5, 10].map(n => n * unit).find(n => span / n <= 10);
  for (let tick = Math.ceil(state.from / mark) * mark; tick <= state.to; tick += mark) {
    context.fillStyle = colours.dim;
    context.fillText(number(tick), xOf(tick, width) + 2, AXIS / 2);
    context.fillStyle = colours.rule;
    context.fillRect(xOf(tick, width), 0, 1, height);
  }
  const hatch = document.createElement('canvas').getContext('2d');
  hatch.canvas.width = hatch.canvas.height = 5;
  hatch.strokeStyle = colours.dim;
  hatch.globalAlpha = 0.55;
  hatch.beginPath();
  hatch.moveTo(0, 5); hatch.lineTo(5, 0);
  hatch.stroke();
  const waits = context.createPattern(hatch.canvas, 'repeat'), last = new Int32Array(L.warps);
  const wait = (w, from, to) => { context.fillStyle = waits; context.fillRect(xOf(from, width), AXIS + w * high + gap, xOf(to, width) - xOf(from, width), high - 2 * gap); };
  context.save();
  context.beginPath();
  context.rect(LEFT, 0, width - LEFT, height);
  context.clip();
  for (const [w, from, to] of L.waits) wait(w, from, to);
  for (const faded of L.match ? [true, false] : [false]) {
    for (let e = 0; e < L.count; e++) {
      const w = L.warp[e], from = L.tick[e], to = from + L.length[e];
      if (w < 0) {
        if (WALLS.has(shape(e).kind) && !faded) for (let i = 0; i < L.warps; i++) { if (from > last[i] + 1 && last[i]) wait(i, last[i], from); last[i] = from + 1; }
        continue;
      }
      if (!faded) last[w] = Math.max(last[w], to);
      if (to < state.from || from > state.to || (L.match && matches(e) === faded)) continue;
      const x = xOf(from, width);
      context.globalAlpha = faded ? 0.18 : 1;
      context.fillStyle = colours[kindOf(shape(e))];
      context.fillRect(x, AXIS + w * high + gap, Math.max((to - from) * (width - LEFT - 4) / span - (span < 400 ? 1 : 0), 0.8), high - 2 * gap);
    }
  }
  context.globalAlpha = 1;
  const labels = [];
  rows.forEach((row, i) => {
    if (!row.parts) return;
    const y = AXIS + i * high + gap;
    for (const part of row.parts) {
      const from = xOf(part.from, width), full = xOf(part.full ?? L.end, width), free = xOf(part.free ?? L.end, width);
      context.fillStyle = row.products ? colours.multiply : colours.engine;
      context.globalAlpha = row.products ? 0.85 : 0.45;
      context.fillRect(from, y, Math.max(full - from - 1, 1), high - 2 * gap);
      if (row.products) { context.globalAlpha = 1; continue; }
      context.globalAlpha = 0.85;
      context.fillStyle = colours.good;
      if (part.full !== undefined) context.fillRect(full, y, Math.max(free - full - 1, 1), high - 2 * gap);
      const label = part.phase === undefined ? part.name.replace('group ', '') : `full, parity ${part.phase & 1}`;
      const short = part.phase === undefined ? label : `${part.phase & 1}`;
      const text = context.measureText(label).width + 6 < free - full ? label : short;
      if (high > 7 && free - full > context.measureText(text).width + 3) labels.push([text, full + 3, y + high / 2 - gap]);
    }
  });
  context.globalAlpha = 1;
  context.fillStyle = colours.panel;
  for (const label of labels) context.fillText(...label);
  context.fillStyle = colours.wall;
  for (const wall of L.walls) context.fillRect(xOf(wall, width) - 0.5, AXIS, 1.5, high * L.warps);
  context.restore();
  const shown = new Set();
  for (const s of L.shapes) shown.add(kindOf(s));
  $('.legend').innerHTML = Object.entries(KINDS).filter(([kind]) => shown.has(kind)).map(([kind, name]) => `<span class="key" style="background:var(--${kind})"></span>${name}`).join('') +
    (L.rings.length ? '<span class="key" style="background:var(--engine);opacity:.5"></span>filling<span class="key" style="background:var(--good)"></span>full' : '') +
    (L.walls.length ? ' &nbsp;<b>|</b> barrier' : '') + (L.waits.length || L.walls.length ? ' &nbsp;▨ waits' : '');
}

function drawOver() {
  const { context, width, height } = fitCanvas($('#over'));
  const x = xOf(state.tick, width), e = state.event;
  if (x >= LEFT) {
    context.fillStyle = css('chosen');
    context.fillRect(x - 0.75, 0, 1.5, height);
    context.beginPath();
    context.moveTo(x - 5, 0); context.lineTo(x + 5, 0); context.lineTo(x, 7);
    context.fill();
  }
  if (e >= 0 && L.warp[e] >= 0 && xOf(L.tick[e], width) >= LEFT) {
    const y = AXIS + L.warp[e] * L.high;
    context.strokeStyle = css('chosen');
    context.lineWidth = 2;
    context.strokeRect(xOf(L.tick[e], width) - 1, y, Math.max(5, xOf(L.tick[e] + L.length[e], width) - xOf(L.tick[e], width) + 2), L.high);
  }
  for (const { event, thread } of L.sides)
    if (event >= 0) {
      context.strokeStyle = css('bad');
      context.lineWidth = 2.5;
      context.strokeRect(xOf(L.tick[event], width) - 1, AXIS + (thread >> 5) * L.high, Math.max(5, xOf(L.tick[event] + L.length[event], width) - xOf(L.tick[event], width) + 2), L.high);
    }
  $('#tick').value = state.tick;
  const wall = L.walls.filter(at => at <= state.tick).length;
  $('#now').textContent = `tick ${number(state.tick)} of ${number(L.end)}` + (L.walls.length ? ` · after ${wall} of ${plural(L.walls.length, 'barrier')}` : '');
}

function zoom(factor, around) {
  const span = Math.min(L.end, Math.max(20, (state.to - state.from) * factor));
  const share = Math.min(1, Math.max(0, (around - state.from) / (state.to - state.from)));
  state.from = Math.min(Math.max(0, around - span * share), L.end - span);
  state.to = state.from + span;
  draw(true);
}

function eventAt(event) {
  const box = $('#over').getBoundingClientRect(), tick = tickAt(event.clientX - box.left, box.width), row = Math.floor((event.clientY - box.top - AXIS) / L.high);
  const wall = L.walls.find(at => Math.abs(xOf(at, box.width) - (event.clientX - box.left)) < 3.5);
  if (wall !== undefined && row < L.warps) for (let e = after(wall - 1); e < L.count; e++) if (L.tick[e] === wall && WALLS.has(shape(e).kind)) return { tick, event: e };
  const chosen = timeRows()[row], near = (state.to - state.from) / box.width * 5;
  if (!chosen) return { tick, event: -1 };
  if (chosen.parts) return { tick, event: chosen.parts.filter(part => part.from <= tick).pop()?.event ?? -1 };
  let best = -1, distance = near + 1;
  for (let e = 0; e < L.count; e++) {
    if (L.warp[e] !== chosen.warp) continue;
    const away = tick < L.tick[e] ? L.tick[e] - tick : Math.max(0, tick - L.tick[e] - L.length[e]);
    if (away < distance || away === distance && matches(e) && !matches(best)) { best = e; distance = away; }
  }
  return { tick, event: best };
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
  $('#launch').innerHTML = page.launches.map((launch, i) => `<option value="${i}"${i === most ? ' selected' : ''}>launch ${i + 1}: ${escape(launch.kernel)}</option>`).join('');
  $('#launch').hidden = page.launches.length < 2;
  listen();
  use(most);
  chooseEvent(nearest(0, telling));
  document.body.dataset.ready = 'yes';
})();
