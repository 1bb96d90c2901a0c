// The page shows this beside time: totals, errors, source, matrices and requests.

// --------------------------------------------------------------------------------------------------------------------
// Head, totals, errors

function drawAbout() {
  const blocks = L.grid.reduce((a, b) => a * b), threads = L.threads.reduce((a, b) => a * b), size = xyz => xyz.filter((n, i) => n > 1 || i === 0).join(' × ');
  const cut = L.block.traced ? `traced: block ${L.block.number} of ${number(blocks)}` :
    `not traced: it has ${plural(blocks, 'block')}`;
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
    <table><tr><th></th><th>page</th><th>block</th><th>launch</th>${run ? '<th>run</th>' : ''}</tr>` +
    ROWS.map(([key, name]) => `<tr><td>${name}</td>${cell('page', key, L.sums[key])}${cell('block', key, counted[key])}${cell('launch', key, L.counters[key])}` +
      `${run ? cell('run', key, run[key]) : ''}</tr>`).join('') + '</table>';
}

function showTab(tab) {
  state.tab = tab;
  for (const button of document.querySelectorAll('[data-tab]')) {
    button.setAttribute('aria-selected', button.dataset.tab === tab);
    button.tabIndex = button.dataset.tab === tab ? 0 : -1;
  }
  for (const [name, id] of [['matrices', 'grids'], ['errors', 'errors'], ['totals', 'totals']]) $('#' + id).hidden = name !== tab;
  if (tab === 'matrices') layoutGrids();
  draw(false);
}

// Returns the threads that reports name, both sides of a race: their line, and their last event there.
function sides() {
  const text = [page.run.reason, ...L.reports.map(report => report.text)].join(' '), found = new Map();
  const [, name, byte] = text.match(/\((\w+), byte (\d+) of \d+\)/) ?? [], array = L.arrays.findIndex(a => a.name === name);
  const element = array < 0 ? null : { array, index: Math.floor(byte / L.arrays[array].unit) };
  for (const [, x, y, z, verb, at] of text.matchAll(/thread \((\d+),(\d+),(\d+)\)[^;:]*?\b(reads|writes)[^;:]*? at (\S+:\d+)/g)) {
    const thread = +x + L.threads[0] * (+y + L.threads[1] * z), line = page.lines.findIndex(name => name === at || name.endsWith(`/${at}`) || at.endsWith(`/${name}`));
    let event = -1;
    for (let e = 0; e < L.count; e++)
      if (L.warp[e] === thread >> 5 && lineOf(e) === line && lanesOf(shape(e).lanes).includes(thread & 31) &&
        (shape(e).kind === 'load') === (verb === 'reads') && (!element || touches(e, element))) event = e;
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
    L.sides.map(({ event, verb, thread, at }, i) => `<p><button data-side="${i}"${event < 0 ? ' disabled' : ''}>${verb}</button> warp ${thread >> 5}, ` +
      `lane ${thread & 31}, at ${escape(at.replace(/^.*\//, ''))}${event < 0 ? ': here the block stopped' : ''}</p>`).join('') +
    (L.sides.length ? '<p>Choose a side: its request, its place in the arrays and its moment are shown. It is framed in red in the time view.</p>' : '') +
    (run.elements ? '<div id="wrong"></div>' : run.map ? `<pre>${escape(run.map)}</pre>` : '');
  if (run.elements) drawWrong($('#wrong'), run.elements);
  document.querySelectorAll('[data-side]').forEach(button => {
    button.onclick = () => {
      const { thread, element, event } = L.sides[button.dataset.side];
      Object.assign(state, { lane: thread & 31, element });
      setFilter();
      chooseEvent(event);
    };
  });
}

// Shows the output as the comparison with the reference left it: "C 33 20: 18.2#".
const WRONG = { '.': ['right', 'good', 0.45], '#': ['wrong', 'bad', 1], '?': ['not a number', 'multiply', 1], '_': ['never written', 'text', 0.75] };

function drawWrong(box, text) {
  const [, name, rows, cols, runs] = text.match(/^(.+) (\d+) (\d+): (.*)$/), marks = [], count = {};
  for (const [, times, mark] of runs.matchAll(/(\d+)(\D)/g)) {
    count[mark] = (count[mark] ?? 0) + +times;
    for (let i = 0; i < times; i++) marks.push(mark);
  }
  const cell = Math.max(1, Math.min(14, Math.floor(Math.min(330 / cols, ($('#matrices').clientHeight - 165) / rows))));
  const canvas = Object.assign(document.createElement('canvas'), { width: cols * cell, height: rows * cell });
  const key = ([mark, n]) => `<span class="key" style="background:var(--${WRONG[mark][1]})"></span>${number(n)} ${WRONG[mark][0]}`;
  box.innerHTML = `<p><b>${escape(name)}</b> ${rows} × ${cols}:${Object.entries(count).map(key).join('')}</p>`;
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
  Object.assign(canvas, { tabIndex: 0, role: 'application' });
  canvas.setAttribute('aria-label', `${name}, right and wrong elements: arrows move, Enter chooses`);
  canvas.onkeydown = event => {
    if (array < 0) return;
    arrowKeys(event, +cols, marks.length, array, 0);
    const i = state.hover?.index;
    if (marks[i]) said.textContent = `${name}[${Math.floor(i / cols)}][${i % cols}] is ${WRONG[marks[i]][0]}`;
    drawElement();
  };
  box.append(canvas, said);
}

// --------------------------------------------------------------------------------------------------------------------
// Source

function buildSource() {
  const table = ['<table><thead><tr><th scope="col">requests</th><th scope="col">sectors</th><th scope="col">wavefronts</th><th scope="col"><span class="unseen">line</span></th><th scope="col"><span class="unseen">code</span></th></tr></thead><tbody>'];
  const byFile = new Map();
  page.lines.forEach((text, line) => {
    const cut = text.lastIndexOf(':'), file = text.slice(0, cut);
    if (!byFile.has(file)) byFile.set(file, new Map());
    byFile.get(file).set(+text.slice(cut + 1), line);
  });
  const used = file => [...byFile.get(file)?.values() ?? []].reduce((n, line) => n + (L.perLine.get(line)?.events.length ?? 0), 0);
  const named = reportLines();
  const files = Object.keys(page.sources).filter(file => byFile.has(file) && used(file) || file === L.home).sort((a, b) => used(b) - used(a));
  files.sort((a, b) => (b === L.home) - (a === L.home));
  for (const file of files) {
    table.push(`<tr class="file"><td colspan="5">${escape(file)}</td></tr>`);
    let comment = false;
    page.sources[file].split('\n').forEach((text, i) => {
      const line = byFile.get(file)?.get(i + 1) ?? -1, of = L.perLine.get(line), begins = text.indexOf('/*'), ends = text.indexOf('*/');
      const whole = comment || /^\s*(\/\/|\/\*)/.test(text);
      if (begins >= 0 && ends < begins) comment = true; else if (ends >= 0) comment = false;
      const split = whole ? 0 : text.search(/\/\*|\/\/|$/), code = text.slice(0, split), rest = text.slice(split);
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
  const code = [...document.querySelectorAll('#source tr[data-at]')].find(tr => tr.textContent.includes('__global__'));
  const first = $('#source tr.report') ?? [...L.rows].find(([line]) => page.lines[line].startsWith(`${L.home}:`))?.[1] ?? code;
  if (first) $('#source .scroll').scrollTop = first.offsetTop - 120;
  L.scrolled = '';
}

// Brings a line into sight within the source, and leaves the page where it is.
function scrollToLine(line) {
  const box = $('#source .scroll'), tr = L.rows.get(line);
  const wanted = `${line} ${state.event}`;
  if (!tr || wanted === L.scrolled) return;
  L.scrolled = wanted;
  if (tr.offsetTop < box.scrollTop + 40 || tr.offsetTop + tr.offsetHeight > box.scrollTop + box.clientHeight - 20) box.scrollTop = tr.offsetTop - box.clientHeight / 3;
}

function markSource() {
  const now = state.event >= 0 ? lineOf(state.event) : -1, touched = new Set();
  if (state.element) for (let e = 0; e < L.count; e++) if (L.match[e]) touched.add(lineOf(e));
  for (const [line, tr] of L.rows) {
    tr.classList.toggle('now', line === now);
    tr.classList.toggle('chosen', line === state.line);
    tr.classList.toggle('touch', touched.has(line));
  }
  scrollToLine(now >= 0 ? now : state.line);
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
    if (v.pieces > 1) v.part = `${v.part || 'all of it'}; a row is ${v.pieces} lines`;
    v.figure.innerHTML = `<figcaption><b>${escape(a.name)}</b>${a.space === 'shared' ? ' shared' : ''} ${v.about}<br>` +
      `${v.part || 'all of it'}</figcaption><canvas tabindex="0" role="application" aria-roledescription="matrix" aria-describedby="element" ` +
      `aria-label="${escape(a.name)}, ${v.about}: arrows move, Enter chooses"></canvas>`;
    v.canvas = $('canvas', v.figure);
    v.canvas.dataset.array = a.name;
    v.canvas.onmousemove = event => { state.hover = at(v, event); drawElement(); };
    v.canvas.onmouseleave = () => { state.hover = null; drawElement(); };
    v.canvas.onclick = event => chooseElement(at(v, event));
    v.canvas.onkeydown = event => arrowKeys(event, v.cols, a.total.reads.length, array, v.r0 * v.cols + v.c0);
    box.append(v.figure);
    a.view = v;
    L.views.push(v);
  });
  L.counted = 0;
  L.reach = 0;
}

// Moves through the elements of an array by the arrow keys; Enter chooses, Escape lets go.
function arrowKeys(event, cols, count, array, first) {
  const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -cols, ArrowDown: cols, Enter: 0 }[event.key];
  if (by === undefined) return;
  event.preventDefault();
  event.stopPropagation();
  const here = [state.hover, state.element].find(element => element?.array === array);
  const next = here ? here.index + by : first;
  if (next >= 0 && next < count) state.hover = { array, index: next };
  if (event.key === 'Enter') chooseElement(state.hover); else draw(false);
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

// Puts the grids where they fit, with the largest cells that do. A product's A, B and C are placed as the product is written.
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
    const put = (v, size, left, top) => {
      spots.push([v, size, left, top]);
      right = Math.max(right, left + v.W * size);
      bottom = Math.max(bottom, top + CAPTION + v.H * size);
    };
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

// Counts what was touched up to now, by element.
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

// Returns the tile of an array at this moment: a box that was copied as one, or what the block touched between two barriers, or
// what each warp touched last.
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

// Returns where an element of global memory lies in shared memory, as [{array, index, from, to}] by events. A lane loads it and the
// same source line stores it there, until another store overwrites it.
function copies({ array, index }) {
  const found = [];
  if (L.arrays[array].space !== 'global') return found;
  for (const e of L.arrays[array].events) {
    const { kinds } = L.perLine.get(lineOf(e)) ?? { kinds: {} };
    if (shape(e).kind !== 'load' || kinds.load > (kinds['shared-store'] ?? 0)) continue;   // a copy has one load for each store
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

// Counts by line how often an element is read and written, by which warps and lanes.
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

// Shows which lanes touch the element under the mouse, or the chosen one.
function drawElement() {
  const element = state.hover ?? state.element, box = $('#element');
  if (!element) { box.innerHTML = state.tab === 'matrices' ? 'Point at an element: who touches it, how often, from which line.' : ''; return; }
  const name = of => `<b>${escape(place(of.array, of.index * L.arrays[of.array].unit))}</b>`;
  const tell = (verb, of) => [...of].map(([line, found]) => `${verb} ${plural(found.times, 'time')} by warp${found.warps.size > 1 ? 's' : ''} ${ranges(found.warps)}` +
    `${found.lanes.size ? `, lane${found.lanes.size > 1 ? 's' : ''} ${ranges(found.lanes)}` : ', copied'}${line >= 0 ? ` (${lineText(line)})` : ''}`);
  const by = users(element), said = [...tell('read', by.reads), ...tell('written', by.writes)], there = copies(element), read = { reads: new Map(), writes: new Map() };
  for (const copy of there) users(copy, read);
  box.innerHTML = `${name(element)} ${said.length ? escape(said.join('; ')) : 'is not touched by this block'}.` +
    (there.length ? ` From ${name(there[0])}${there.length > 1 ? ` (the first of ${there.length} places)` : ''}: ` +
      `${escape(tell('read', read.reads).join('; ') || 'never read')}.` : '');
}

// --------------------------------------------------------------------------------------------------------------------
// Request: sectors or banks

// SVG is written as text. A lane's colour and number are the same wherever it is drawn.
const MARGIN = 62, WIDE = 9.6;   // of the labels at the left; of a bank, a word or a lane
const rect = (x, y, width, height, more) => `<rect x="${x}" y="${y}" width="${Math.max(width, 1)}" height="${height}" rx="1.5" ${more}/>`;
const label = (x, y, text, anchor = 'middle', on = false) => `<text x="${x}" y="${y}" text-anchor="${anchor}"${on ? ' class="on"' : ''}>${text}</text>`;
const drawing = (height, parts, name) => `<svg viewBox="0 0 372 ${height}" width="372" height="${height}" role="group" aria-label="${name}">${parts.join('')}</svg>`;
const faded = lanes => state.lane >= 0 && !lanes.includes(state.lane) ? ' opacity="0.25"' : '';
const laneAt = lane => MARGIN + lane * WIDE + WIDE / 2;

function laneStrip(s) {
  return [...Array(32).keys()].map(lane => {
    const chosen = state.lane === lane, fill = lanesOf(s.lanes).includes(lane) ? laneColour(lane) : 'var(--cell)';
    return `<g data-lane="${lane}" tabindex="0" role="button" aria-label="lane ${lane}" aria-pressed="${chosen}">${rect(MARGIN + lane * WIDE, 12, WIDE - 1, 11, `fill="${fill}"${chosen ? ' stroke="var(--text)" stroke-width="2"' : ''}`)}` +
      `${lane % 4 === 0 || chosen ? label(laneAt(lane), 9, lane, 'middle', chosen) : ''}</g>`;
  }).join('') + label(MARGIN - 4, 21, 'lane', 'end');
}

function link(lane, x, y) {
  const chosen = state.lane === lane, strength = state.lane < 0 ? 0.35 : chosen ? 1 : 0.06, bend = Math.min(y - 8, 40);
  return `<path d="M${laneAt(lane)} 23C${laneAt(lane)} 36 ${x} ${bend} ${x} ${y}" fill="none" stroke="${laneColour(lane)}" ` +
    `stroke-width="${chosen ? 2 : 0.7}" opacity="${strength}"/>`;
}

const bar = (name, value, most, more = '', colour = '') => `<div class="bar${more}"><span>${name}</span>` +
  `<i style="width:${Math.max(1, 100 * value / most)}%${colour && `;background:var(--${colour})`}"></i><span>${number(value)}</span></div>`;

function drawRequest() {
  const box = $('#request .scroll'), e = state.event, s = e >= 0 ? shape(e) : null;
  $('#request h2 small').textContent = s ? `${describe(e)} · tick ${number(L.tick[e])}` : '';
  $('#request h2 small').title = s ? describe(e) : '';
  const drawn = [e, L.index, runs.indexOf(active), state.lane, document.documentElement.dataset.theme, ...L.arrays.map(a => a.pitch)].join(' ');
  if (box.drawn === drawn) return;   // so that what has the focus keeps it
  box.drawn = drawn;
  if (!s) box.innerHTML = '<p>Choose a source line, an element or a moment: the request that belongs to it is shown here, lane by lane.</p>';
  else if (s.kind !== 'load' && s.kind !== 'store') { if (WALLS.has(s.kind)) drawBarrier(box, e); else drawOther(box, e, s); }
  else if (s.space === 'global') drawSectors(box, e, s);
  else drawBanks(box, e, s);
}

function drawOther(box, e, s) {
  const parts = [`<p>${escape(describe(e))}.</p>`];
  if (s.box)
    parts.push(`<p>The box begins at ${s.from.join(', ')} (fastest dimension first) and is ${s.box.join(' × ')} elements of ${s.element_bytes} bytes:`,
      `${number(s.bytes)} bytes in ${number(s.sectors)} sectors of global memory, ${number(s.wavefronts)} wavefronts of shared memory` +
      `${s.swizzle ? `, swizzled over ${s.swizzle} bytes` : ''}. One thread orders it; the copy engine does the rest.</p>`);
  if (s.runs.length && MEMORY.has(s.kind)) parts.push(`<p>${escape(s.runs.map(([array, first]) => place(array, L.base[e] + first)).join(', '))}</p>`);
  box.innerHTML = parts.join(' ') + drawTogether(e, s);
}

function drawSectors(box, e, s) {
  const found = sectors(e), lanes = lanesOf(s.lanes), wanted = found.wanted.size, moved = found.sectors.size * 32, share = Math.round(100 * wanted / moved), top = 50;
  const lines = [...found.lines.values()].sort((a, b) => a.array - b.array || a.byte - b.byte), high = Math.max(5, Math.min(15, 300 / lines.length));
  const parts = [laneStrip(s)], links = [];
  lines.forEach((line, i) => {
    const y = top + i * (high + 2), first = line.array * 2 ** 40 + Math.floor((line.byte + L.arrays[line.array].begin) / 32), many = new Map();
    for (let sector = 0; sector < 4; sector++)
      parts.push(rect(MARGIN + sector * WIDE * 8, y, WIDE * 8 - 2, high, found.sectors.has(first + sector) ?
        'fill="color-mix(in srgb, var(--load) 22%, var(--panel))" stroke="var(--load)" stroke-width="0.8"' : 'fill="none" stroke="var(--rule)" stroke-width="0.5"'));
    for (const { lane, at, bytes } of line.wants) {
      const x = MARGIN + at / 4 * WIDE, width = Math.min(bytes, 128 - at) / 4 * WIDE;
      parts.push(rect(x, y + 1, width - 1, high - 2, `data-lane="${lane}" fill="${laneColour(lane)}"${faded([lane])}`));
      links.push(link(lane, x + width / 2, y));
      many.set(at, (many.get(at) ?? 0) + 1);
    }
    for (const [at, times] of many) if (times > 1 && high >= 9) parts.push(label(MARGIN + at / 4 * WIDE + WIDE / 2, y + high + 9, `×${times}`, 'middle', true));
    if (high >= 9 || i % Math.ceil(11 / (high + 2)) === 0)
      parts.push(label(MARGIN - 4, y + high / 2 + 3, escape(place(line.array, Math.max(0, line.byte)).replace(/^.+(?=.{10}$)/, '…')), 'end'));
  });
  box.innerHTML = `<p>${plural(lanes.length, 'lane')} → <b>${plural(found.sectors.size, 'sector')}</b> of 32 bytes → ${plural(lines.length, 'line')} of 128 bytes</p>` +
    bar('bytes wanted', wanted, moved, '', share === 100 ? 'good' : 'chosen') + bar('bytes moved', moved, moved, '', 'load') +
    `<p>${share} % of what moves is wanted${wanted < lanes.length * s.bytes ? '; several lanes want the same' : ''}.</p>` +
    drawing(top + lines.length * (high + 2) + 12, [...links, ...parts], 'lanes above the sectors of their lines');
}

// Shows what a barrier keeps apart: elements that one thread writes on one side of it and another thread touches on the other.
function drawBarrier(box, e) {
  const wall = L.walls.indexOf(L.tick[e]), sides = [new Map(), new Map()], from = L.walls[wall - 1] ?? -1, to = L.walls[wall + 1] ?? Infinity;
  for (let i = 0; i < L.count && L.tick[i] < to; i++) {
    if (L.tick[i] <= from || !MEMORY.has(shape(i).kind)) continue;
    const side = sides[+(L.tick[i] > L.tick[e])];
    accesses(i, (lane, array, byte, bytes, writes) => {
      const what = `${lineOf(i)} ${writes ? 'writes' : 'reads'}`, thread = L.warp[i] * 32 + lane;
      for (let at = byte; at < byte + bytes; at += Math.min(4, bytes)) {
        const key = array * 2 ** 40 + at, of = side.get(key) ?? side.set(key, new Map()).get(key);
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
  const go = line => line < 0 ? 'an unknown line' : `<a href="#" data-go="${line}">${escape(lineText(+line))}</a>`;
  const rows = [...pairs].sort((a, b) => b[1] - a[1]).map(([pair, times]) => {
    const [array, line, verb, other, then] = pair.split(' ');
    return `<tr><td><b>${escape(L.arrays[array].name)}</b></td><td>${go(line)} ${verb}</td><td>→</td><td>${go(other)} ${then}</td><td>${number(times)}</td></tr>`;
  });
  box.innerHTML = `<p>Barrier ${wall + 1} of ${L.walls.length}: ${escape(describe(e))}.</p>` + (rows.length ?
    `<h3>What it keeps apart</h3><p>Elements that one thread touches before it and another after it, at least one of them writing:</p>
    <table class="pairs"><tr><th></th><th>before</th><th></th><th>after</th><th>elements</th></tr>${rows.join('')}</table>` :
    '<p>Between the barriers around it, no thread touches what another one writes on the other side.</p>');
  box.querySelectorAll('[data-go]').forEach(a => { a.onclick = event => { event.preventDefault(); chooseLine(+a.dataset.go); }; });
}

function drawBanks(box, e, s) {
  const fronts = banks(e), excess = fronts.length - s.ideal, top = 52, high = Math.max(6, Math.min(15, 240 / fronts.length)), parts = [laneStrip(s)], links = [];
  for (let bank = 0; bank < 32; bank += 4) parts.push(label(laneAt(bank), top - 4, bank));
  parts.push(label(MARGIN - 4, top - 4, 'bank', 'end'));
  fronts.forEach((front, i) => {
    const y = top + i * (high + 1.5);
    parts.push(rect(MARGIN - 1, y, 32 * WIDE + 1, high, 'fill="var(--cell)"'));
    if (high >= 8 || i % 3 === 0) parts.push(label(MARGIN - 4, y + high / 2 + 3, `wavefront ${i + 1}`, 'end'));
    for (const [bank, { lanes }] of front.banks) {
      const own = lanes.includes(state.lane) ? state.lane : lanes[0];
      parts.push(`<g data-lane="${lanes[0]}"><title>bank ${bank}: lanes ${ranges(lanes)}</title>`,
        rect(MARGIN + bank * WIDE, y + 0.5, WIDE - 1, high - 1, `fill="${laneColour(own)}"${faded(lanes)}`),
        lanes.length > 1 && high >= 9 ? `<g class="many">${label(laneAt(bank) - 0.5, y + high / 2 + 3, lanes.length)}</g>` : '', '</g>');
      for (const lane of lanes) links.push(link(lane, laneAt(bank), y));
    }
  });
  const shared = fronts.some(front => [...front.banks.values()].some(of => of.lanes.length > 1));
  box.innerHTML = `<p><b>${plural(fronts.length, 'wavefront')}</b>, ideal ${s.ideal}${excess ? `: <b class="bad">${plural(excess, 'conflict')}</b>` : ', no conflict'}` +
    ` · ${plural(lanesOf(s.lanes).length, 'lane')} × ${s.bytes} bytes${shared ? '; a number: so many lanes share the word' : ''}</p>` +
    drawing(top + fronts.length * (high + 1.5) + 2, [...links, ...parts], 'lanes above the banks of their words') + '<div id="whatif"></div>';
  const next = e + 1 + [...L.warp.subarray(e + 1, e + 80)].indexOf(L.warp[e]);
  if (next > e && shape(next).kind === 'warp' && shape(next).line === s.line) $('#whatif').insertAdjacentHTML('beforebegin', drawTogether(next, shape(next)));
  drawWhatIf($('#whatif'), e, s);
}

// Shows this line's wavefronts if the array's rows had another pitch, or their words were swizzled.
function drawWhatIf(box, e, s) {
  const MOST = 1024, array = s.runs[0][0], a = L.arrays[array], words = Math.max(s.bytes >> 2, 1);
  const declared = a.shape.length > 1 ? a.shape[a.shape.length - 1] * a.unit / 4 : 0, pitch = declared || a.pitch;
  const alike = of => of.kind === s.kind && of.space === 'shared' && of.runs[0][0] === array;
  const events = (L.perLine.get(s.line)?.events ?? [e]).filter(i => alike(shape(i))).slice(0, MOST), ideal = events.reduce((total, i) => total + shape(i).ideal, 0);
  const sum = where => events.reduce((total, i) => total + banks(i, where).length, 0);
  const repitch = to => word => Math.floor(word / pitch) * to + word % pitch;
  const swizzle = word => {
    const row = Math.floor(word / pitch), col = word % pitch, chunk = Math.floor(col / words) ^ row % (pitch / words);
    return row * pitch + chunk * words + col % words;
  };
  const without = 2 ** Math.floor(Math.log2(pitch || 1));   // what it would be without padding
  const rows = [...new Set([without, pitch - 1, pitch, pitch + 1, pitch + 2, pitch + 4, pitch + 8])].filter(to => to > 0 && to % words === 0).map(to => [`${to} words`, sum(repitch(to)), to === pitch]);
  if (declared > words && (pitch & pitch - 1) === 0) rows.push(['XOR swizzle', sum(swizzle), false]);
  const most = Math.max(...rows.map(row => row[1]));
  box.innerHTML = `<h3>If rows of ${escape(a.name)} had another length</h3>` +
    (declared ? '' : `<p>Its declaration does not tell how long a row is: <input type="number" min="1" max="4096" placeholder="words" aria-label="words in a row" value="${pitch ?? ''}"> words</p>`) +
    (pitch ? `<p>wavefronts of ${escape(lineText(s.line))} in this block${events.length === MOST ? ', first 1,024 requests' : ''}; ideal ${number(ideal)}</p>` : '') +
    rows.map(([name, value, now]) => bar(name + (now ? ', as it is' : ''), value, most, (now ? ' now' : '') + (value > ideal ? ' bad' : ''))).join('');
  const input = $('input', box);
  if (input) input.onchange = () => { a.pitch = +input.value > 0 ? +input.value : undefined; draw(false); };
}
