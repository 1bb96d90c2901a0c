// The page knows this: the events of a launch, what they touch and what they add up to.

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

// Returns the rows of a box that lie inside the array.
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
  if (s.kind === 'cluster_store') return 'shared-store';
  return 'other';
}
const KINDS = { load: 'global load', store: 'global store', 'shared-load': 'shared load', 'shared-store': 'shared store', multiply: 'mma',
  meet: 'shuffle, vote', atomic: 'atomic', engine: 'copy ordered', other: 'wait, fence' };

// Adds the events up to the counters of the block.
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

// Returns sectors and lines of a request to global memory, each with what lanes want of it.
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

// Returns the wavefronts of a request to shared memory, {bank: {word, lanes}} for each. `where` moves words of the array, for what-if.
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
  const extents = a.shape.slice(Math.max(0, Math.min(a.shape.findIndex(extent => extent > 1), a.shape.length - 2)));
  for (const extent of extents.reverse()) { text = `[${rest % extent}]${text}`; rest = Math.floor(rest / extent); }
  return a.name + text;
}

function describe(e) {
  const s = shape(e), own = L.warp[e] >= 0 ? `warp ${L.warp[e]}` : 'the block';
  const who = /^(named_|cluster_|grid_)?barrier$|_phase$/.test(s.kind) ? '' : s.kind === 'tma_load_done' ? 'copy engine:' : own;
  const at = s.line === undefined ? '' : ` · ${lineText(s.line)}`;
  const what = {
    load: 'loads', store: 'stores', tma_load: 'orders a box of', tma_store: 'orders the store of a box of', warp: s.operation,
    barrier: 'all warps are at the barrier', cp_async: `orders copies, group ${L.value[e]}`, cp_async_commit: `closes group ${L.value[e]} of copies`,
    cp_async_wait: `waits until ${L.value[e]} groups are pending`, mbarrier_wait: `waits for phase ${L.value[e]} of`,
    mbarrier_passed: `passes phase ${L.value[e]} of`, mbarrier_phase: `phase ${L.value[e]} is over:`, mbarrier_arrive: 'arrives at',
    wgmma: `starts a product, group ${L.value[e]}`, wgmma_wait: `waits until ${L.value[e]} groups of products are pending`,
    cluster_store: `stores into block ${L.value[e]} of the cluster:`,
    named_barrier: `named barrier ${s.id}: all are there`, named_barrier_sync: `comes to named barrier ${L.value[e]} and waits`,
    named_barrier_arrive: `comes to named barrier ${L.value[e]}`, tma_load_done: 'the box is there:',
    atomic_read: 'atomically reads', atomic_write: 'atomically writes', atomic_update: 'atomically updates',
  }[s.kind] ?? s.kind.replace(/_/g, ' ');
  const arrays = [...new Set(s.runs.map(run => run[0]))];
  const of = MEMORY.has(s.kind) || s.kind.startsWith('tma') && !s.kind.endsWith('done') ? arrays.map(a => L.arrays[a].name).join(', ') :
    s.runs.length && !/^(cp|wg)/.test(s.kind) ? place(s.runs[0][0], L.base[e] + s.runs[0][1]) : '';
  const to = s.ranks ? ` for blocks ${lanesOf(s.ranks).join(', ')} of the cluster` : '';
  return `${who} ${what} ${of}${to}${at}`.trim();
}

// --------------------------------------------------------------------------------------------------------------------
// A launch is chosen

// Counts what a launch of the active page did.
function prepare(run, index) {
  const launch = page.launches[index], events = launch.events;
  run.L = L = { ...launch, index, count: events.tick.length };
  L.home = page.home || L.line.replace(/:\d+$/, '');
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
  L.sums = sums();
}

// Shows a launch of the active run in all views.
function use(index) {
  if (index !== L.index) prepare(active, index);
  Object.assign(state, { tick: 0, event: -1, line: -1, element: null, lane: -1, hover: null, from: 0, to: endOfTime() });
  $('#launch').value = index;
  $('#tick').max = endOfTime();
  drawAbout();
  buildSource();
  for (const run of runs) {
    const rows = within(run, timeRows).length, [least, most] = runs.length > 1 ? [90, 320] : [124, page.run.check === 'FAIL' || !L.rings.length ? 190 : 260];
    run.axis.box.style.setProperty('--high', `${Math.max(least, Math.min(most, 14 + rows * (runs.length > 1 ? 11 : 9.5)))}px`);
    run.axis.box.classList.toggle('alone', runs.length < 2);
    run.axis.box.classList.toggle('active', run === active);
  }
  drawLegend();
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

// Names a box of an array as the tile that it is: by its rows.
function tileName(source, from, box) {
  const d = Math.max(1, box.findLastIndex(extent => extent > 1));
  return `${source} ${from[d]}–${from[d] + box[d] - 1}`;
}

// Names a tile by where in its array it begins.
function beginning({ array, byte }) {
  const a = L.arrays[array], columns = a.shape.length ? a.shape[a.shape.length - 1] : 0, index = Math.floor(byte / a.unit), column = index % columns;
  return columns ? `${a.name} from row ${Math.floor(index / columns)}${column ? `, column ${column}` : ''}` : `${a.name} from ${index}`;
}

// Finds the places that asynchronous copies fill, when each starts to fill, is full, and is free again; and products in flight.
function rings() {
  const rows = new Map(), groups = new Map(), commits = {}, loads = {}, lastWait = {}, lastFree = {}, lastLoad = {}, products = {};
  const row = (key, label, order) => rows.get(key) ?? rows.set(key, { label, order, parts: [] }).get(key);
  L.waits = [];
  const open = {}, named = {}, announced = new Set();   // mbarriers that count bytes are "full" ones
  for (let e = 0; e < L.count; e++) {
    const s = shape(e), w = L.warp[e], at = s.runs.length ? `${s.runs[0][0]}+${L.base[e] + s.runs[0][1]}` : '';
    if (s.kind === 'load' && s.space === 'global') lastLoad[w] = { array: s.runs[0][0], byte: L.base[e] + s.runs[0][1] };
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
      const part = { event: e, from: L.tick[e], name: tileName(source, s.from, s.box) };
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
      const g = groups.get(L.value[e]) ?? groups.set(L.value[e], { from: L.tick[e], at: new Map(), of: new Map() }).get(L.value[e]);
      for (const [array, first] of s.runs) {
        g.at.set(array, Math.min(g.at.get(array) ?? Infinity, L.base[e] + first));
        const before = g.of.get(array), now = lastLoad[w];
        if (now && !(before?.byte <= now.byte)) g.of.set(array, now);
      }
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
      r.parts.push({ event: g.event, from: g.from, full: g.full, name: g.of.has(array) ? beginning(g.of.get(array)) : `group ${group}` });
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
