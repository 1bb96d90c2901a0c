// This is the time view.

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

function drawLanes(run) {
  const { context, width, height } = fitCanvas(run.axis.lanes), rows = timeRows(), high = (height - AXIS) / rows.length, gap = high > 6 ? 1.5 : 0.5;
  const colours = Object.fromEntries([...Object.keys(KINDS), 'wall', 'dim', 'rule', 'text', 'soft', 'chosen', 'good', 'on'].map(name => [name, css(name)]));
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
  const wait = (w, from, to) => {
    context.fillStyle = waits;
    context.fillRect(xOf(from, width), AXIS + w * high + gap, xOf(to, width) - xOf(from, width), high - 2 * gap);
  };
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
      const label = part.phase === undefined ? part.name : `${part.name}, parity ${part.phase & 1}`, short = part.name.replace(/^\D+/, '');
      // Its name stands where the place is full, shortened if need be, and before that where there is too little room.
      const wide = Math.max(full, LEFT), fits = (text, room) => context.measureText(text).width + 6 < room;
      const text = fits(label, free - wide) ? label : short, at = fits(text, free - wide) ? wide + 3 : wide - context.measureText(text).width - 3;
      if (high > 7 && (at > wide || fits(text, wide - Math.max(from, LEFT)))) labels.push([at > wide ? colours.on : colours.text, text, at, y + high / 2 - gap]);
    }
  });
  context.globalAlpha = 1;
  context.font = `${Math.min(high - 2, 10)}px system-ui, sans-serif`;
  for (const [colour, ...label] of labels) {
    context.fillStyle = colour;
    context.fillText(...label);
  }
  context.fillStyle = colours.wall;
  for (const wall of L.walls) context.fillRect(xOf(wall, width) - 0.5, AXIS, 1.5, high * L.warps);
  context.restore();
}

function drawLegend() {
  const shown = new Set(runs.flatMap(run => within(run, () => L.shapes.map(kindOf)))), any = what => runs.some(run => what(run.L));
  const key = ([kind, name]) => `<span class="key" style="background:var(--${kind})"></span>${name}`;
  $('.legend').innerHTML = Object.entries(KINDS).filter(([kind]) => shown.has(kind)).map(key).join('') +
    (any(of => of.rings.length) ? '<span class="key" style="background:var(--engine);opacity:.5"></span>filling<span class="key" style="background:var(--good)"></span>full' : '') +
    (any(of => of.walls.length) ? ' &nbsp;<b>|</b> barrier' : '') + (any(of => of.waits.length || of.walls.length) ? ' &nbsp;▨ waits' : '');
}

function drawOver(run) {
  const { context, width, height } = fitCanvas(run.axis.over);
  const x = xOf(state.tick, width), e = run === active ? state.event : -1;
  if (x >= LEFT) {
    context.fillStyle = css('chosen');
    context.fillRect(x - 0.75, 0, 1.5, height);
    context.beginPath();
    context.moveTo(x - 5, 0); context.lineTo(x + 5, 0); context.lineTo(x, 7);
    context.fill();
  }
  const frame = (event, warp, colour, thick) => {
    const from = xOf(L.tick[event], width), to = xOf(L.tick[event] + L.length[event], width);
    context.strokeStyle = css(colour);
    context.lineWidth = thick;
    if (from >= LEFT) context.strokeRect(from - 1, AXIS + warp * L.high, Math.max(5, to - from + 2), L.high);
  };
  if (e >= 0 && L.warp[e] >= 0) frame(e, L.warp[e], 'chosen', 2);
  for (const { event, thread } of L.sides ?? []) if (event >= 0) frame(event, thread >> 5, 'bad', 2.5);
}

function drawNow() {
  $('#tick').value = state.tick;
  const wall = L.walls.filter(at => at <= state.tick).length;
  $('#now').textContent = `tick ${number(state.tick)} of ${number(L.end)}` + (L.walls.length ? ` · after ${wall} of ${plural(L.walls.length, 'barrier')}` : '');
}

function zoom(factor, around) {
  const end = endOfTime(), span = Math.min(end, Math.max(20, (state.to - state.from) * factor));
  const share = Math.min(1, Math.max(0, (around - state.from) / (state.to - state.from)));
  state.from = Math.min(Math.max(0, around - span * share), end - span);
  state.to = state.from + span;
  draw(true);
}

function eventAt(run, event) {
  const box = run.axis.over.getBoundingClientRect(), tick = tickAt(event.clientX - box.left, box.width), row = Math.floor((event.clientY - box.top - AXIS) / L.high);
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
