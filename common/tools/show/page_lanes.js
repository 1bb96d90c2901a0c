// The page shows this of instructions in which lanes take part together: who gets what from whom, and which elements of a matrix a
// lane holds. A trace has no distances of shuffles; they are read off the source, where it says them.

// Returns an integer that the sources name, or null: a constant, a template argument of the kernel, half of one of these.
function valueOf(text) {
  const word = text.trim(), code = Object.values(page.sources).join('\n'), half = word.match(/^(\w+) \/ 2$/);
  if (half) return valueOf(half[1]) === null ? null : valueOf(half[1]) / 2;
  if (/^\d+$/.test(word)) return +word;
  if (!/^\w+$/.test(word)) return null;
  const constant = code.match(new RegExp(`\\b${word} = (\\w+)\\b(?=[,; ])`));
  if (constant && /^\d+$/.test(constant[1])) return +constant[1];
  const kernel = L.kernel.split('<')[0], template = code.match(new RegExp(`template <([^>]*)>\\s*__global__[^;{]*?\\b${kernel}\\s*\\(`));
  const place = template ? template[1].split(',').findIndex(parameter => parameter.trim().split(/[ =]+/)[1] === word) : -1;
  const given = place < 0 ? null : L.kernel.replace(/^[^<]*<|>$/g, '').split(',')[place];
  return given && /^\s*\d+$/.test(given) ? +given : null;
}

// Returns the distances that a loop of shuffles goes through, [16, 8, 4, 2, 1] say; [] where the source does not tell.
function distances(line) {
  const cut = page.lines[line].lastIndexOf(':'), rows = (page.sources[page.lines[line].slice(0, cut)] ?? '').split('\n'), at = page.lines[line].slice(cut + 1) - 1;
  const by = rows[at]?.match(/__shfl_xor_sync\(.*, (\w+)\)/)?.[1];
  if (!by) return [];
  if (valueOf(by) !== null && /^\d+$/.test(by)) return [+by];
  const loop = rows.slice(Math.max(0, at - 9), at + 1).reverse().map(row => row.match(new RegExp(`for \\(int ${by} = ([^;]+); ${by} (<|>) ([^;]+); ${by} (/|\\*)= 2\\)`))).find(Boolean);
  if (!loop) return [];
  let first = valueOf(loop[1]);
  if (first === null) {   // a parameter of this function: what do its callers give?
    const head = rows.slice(0, at).reverse().map(row => row.match(/(\w+)\((.*), int (\w+)(?: = (\w+))?\)/)).find(Boolean);
    if (!head || !loop[1].startsWith(head[3])) return [];
    const calls = [...Object.values(page.sources).join('\n').matchAll(new RegExp(`[=+*(] ?${head[1]}\\(((?:[^();]|\\((?:[^();]|\\([^();]*\\))*\\))*)\\)`, 'g'))].map(call => call[1].match(/, (\w+)$/)?.[1] ?? head[4]);
    const widths = new Set(calls.map(valueOf));
    if (widths.size !== 1 || widths.has(null)) return [];
    first = [...widths][0] / (loop[1].endsWith('/ 2') ? 2 : 1);
  }
  const last = valueOf(loop[3]), found = [];
  if (last === null) return [];
  for (let d = first; loop[2] === '>' ? d > last : d < last; d = loop[4] === '/' ? Math.floor(d / 2) : d * 2) found.push(d);
  return found;
}

function drawShuffle(e, s) {
  const all = distances(s.line);
  let turn = 0;
  for (const other of L.perLine.get(s.line).events) if (other < e && L.warp[other] === L.warp[e]) turn++;
  const distance = all[turn % all.length], lanes = lanesOf(s.lanes);
  if (!distance) return '<p>The source does not say by how much in a way that this page reads.</p>';
  const links = lanes.map(lane => link(lane, laneAt(lane ^ distance), 84)), below = lanes.map(lane => {
    const from = lane ^ distance, chosen = state.lane === lane || state.lane === from;
    return rect(MARGIN + lane * WIDE, 84, WIDE - 1, 11, `fill="${laneColour(from)}"${state.lane < 0 || chosen ? '' : ' opacity="0.25"'}`) +
      (lane % 4 === 0 || chosen ? label(laneAt(lane), 105, lane) : '');
  });
  return `<p>Each lane gets the value of the lane <b>${distance}</b> away (its number XOR ${distance})${all.length > 1 ? `: ${turn % all.length + 1} of ${all.length} ` +
    `shuffles, ${all.join(', ')}, after which all ${all[0] >= all[all.length - 1] ? all[0] * 2 : all[all.length - 1] * 2} lanes of a group have the same` : ''}.</p>` +
    drawing(110, [...links, laneStrip(s), ...below, label(MARGIN - 4, 93, 'gets', 'end')], 'lanes, and below each the lane whose value it gets');
}

// Who holds an element of a fragment, by row and column: the patterns of mma.m16n8k16, which ldmatrix fills and wgmma shares.
const FRAGMENTS = {
  A: ['A, 16 × 16', 16, 16, (row, col) => row % 8 * 4 + (col % 8 >> 1)],
  B: ['B, 16 × 8', 16, 8, (row, col) => col * 4 + (row % 8 >> 1)],
  C: ['C, 16 × 8', 16, 8, (row, col) => row % 8 * 4 + (col >> 1)],
  M: ['each matrix, 8 × 8', 8, 8, (row, col) => row * 4 + (col >> 1)],
};

function drawFragments(names, text) {
  const cell = names.length > 1 ? 10 : 16, parts = [];
  let x = 2, high = 0;
  for (const name of names) {
    const [title, rows, cols, owner] = FRAGMENTS[name];
    parts.push(label(x, 10, title, 'start', true));
    for (let row = 0; row < rows; row++)
      for (let col = 0; col < cols; col++) {
        const lane = owner(row, col), own = state.lane === lane;
        parts.push(`<g data-lane="${lane}"><title>${title.split(',')[0]}[${row}][${col}]: lane ${lane}</title>` +
          rect(x + col * cell, 15 + row * cell, cell - 1, cell - 1, `fill="${laneColour(lane)}"${own ? ' stroke="var(--text)" stroke-width="1.5"' : ''}${faded([lane])}`) +
          (cell > 12 ? `<g class="many">${label(x + col * cell + cell / 2 - 0.5, 15 + row * cell + 11, lane)}</g>` : '') + '</g>');
      }
    x += cols * cell + 12;
    high = Math.max(high, 15 + rows * cell);
  }
  const all = { lanes: 2 ** 32 - 1 };
  return `<p>${text} ${state.lane < 0 ? 'Choose a lane to see its elements.' : `Lane ${state.lane} is framed.`}</p>` + drawing(28, [laneStrip(all)], 'lanes') +
    drawing(high + 4, parts, 'which lane holds which element');
}

// Returns what is drawn of an operation of a warp; '' where there is nothing more to tell.
function drawTogether(e, s) {
  const operation = s.kind === 'wgmma' ? 'wgmma' : s.operation ?? '';
  if (/shfl_xor/.test(operation)) return drawShuffle(e, s);
  if (/^(ldmatrix|stmatrix)/.test(operation)) {
    let rows = e - 1;
    while (rows >= 0 && (L.warp[rows] !== L.warp[e] || shape(rows).kind !== 'load' && shape(rows).kind !== 'store')) rows--;
    const many = rows < 0 ? 4 : lanesOf(shape(rows).lanes).length / 8;
    return drawFragments(['M'], `${plural(many, 'matrix').replace('matrixs', 'matrices')} of 8 × 8 halves. Lanes 0–7 give the addresses of the rows of the first, ` +
      `8–15 of the second and so on; then each lane holds two neighbours of each${/trans/.test(operation) ? ', rows and columns exchanged' : ''}.`);
  }
  if (/^mma_m16n8k16/.test(operation)) return drawFragments(['A', 'B', 'C'], 'C += A · B. Each lane holds 8 elements of A, 4 of B, 4 of C.');
  if (operation === 'wgmma') {
    const row = L.warp[e] % 4 * 16;
    return drawFragments(['C'], `A product of a warpgroup: 64 rows, of which this warp has ${row} to ${row + 15}. In each 8 columns of the sums a lane holds what it holds of an mma's C.`);
  }
  return '';
}
