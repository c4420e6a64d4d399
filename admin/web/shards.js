// The field of all shards. A canvas shows it; one option of a list box, which follows the
// keyboard, says it.
let map = { epoch: -1, nodes: [], owners: [] };
let moving = new Map(); // shard → the node where it goes
let targets = new Map(); // shard → the owner where it goes, with its app instance
let fresh = new Set(); // what the last map has moved
let silent = new Map(); // owners that do not serve, and why
let at = -1; // the shard that the keyboard or the pointer is at
let chosen = -1; // where it stays when the pointer leaves
let field = { first: 0, size: 0, columns: 1, ratio: 1, gap: 0 };
const stories = new Map(); // shard → what /v1/shards/N said, in this epoch

const ownerOf = (shard) => map.nodes[map.owners[shard]]?.id ?? '';

// takeMap notes what another map has moved.
function takeMap(next, moves) {
  if (next.epoch !== map.epoch) {
    if (map.epoch > 0) {
      fresh = new Set(next.owners.flatMap((o, i) => ((next.nodes[o]?.id ?? '') !== ownerOf(i) ? [i] : [])));
    }
    stories.clear();
  }
  map = next;
  moving = new Map(moves.map((m) => [m.shard, m.to ?? '']));
  targets = new Map(moves.map((m) => [m.shard, named(m.to ?? '', m.to_instance)]));
}

// named returns the name of an owner: NODE/INSTANCE if a node has several app instances.
const named = (node, instance) => (node && instance ? `${node}/${instance}` : node ?? '');

function showShards(st) {
  const there = new Map(st.nodes.map((n) => [n.id, n]));
  silent = new Map(map.nodes.map(({ id }) => [id, there.has(id) ? there.get(id).unavailable : 'nothing is known of it']).filter(([, why]) => why));
  const { name } = scope(), shown = map.owners.map((_, i) => i).filter((i) => inScope(i) && !isUnused(i)), n = shown.length;
  const dead = shown.filter((i) => ownerOf(i) !== '' && silent.has(ownerOf(i))).length, inMotion = [...moving.keys()].filter(inScope).length;
  const orphaned = name ? shown.filter((i) => ownerOf(i) === '').length : st.shards.orphaned, moved = [...fresh].filter(inScope).length;
  const said = [name ? `${n} of service ${name}` : `${n} in all`];
  if (inMotion > 0) said.push(`${inMotion} moving`);
  if (orphaned > 0) said.push(`${orphaned} orphaned`);
  if (dead > 0) said.push(`${dead} unavailable (${silentOnes()})`);
  if (moved > 0) said.push(`${moved} moved by epoch ${map.epoch}`);
  say($('shards-sum'), said.join(' · '));
  $('shards').hidden = map.owners.length === 0;
  drawShards();
  tell();
}

function silentOnes() {
  const ids = [...silent.keys()];
  return ids.length > 4 ? `${ids.slice(0, 3).join(', ')} and ${ids.length - 3} more` : ids.join(', ');
}

// shape finds how large the squares can be for all to stand in a width and a height.
function shape(n, width, height) {
  for (let size = Math.min(24, Math.max(4, Math.floor(Math.sqrt(width * height / n)))); ; size -= 0.5) {
    let columns = Math.floor(width / size);
    if (columns > 16) columns -= columns % 16;
    if (size <= 3 || Math.ceil(n / columns) * size <= height) return { size, columns: Math.max(1, Math.min(columns, n)) };
  }
}

function drawShards() {
  const { first, shards: n } = scope(), canvas = $('canvas'), width = $('grid').clientWidth;
  if (n === 0 || width === 0) return;
  const { size, columns } = shape(n, width, width < 600 ? 420 : 330);
  const ratio = window.devicePixelRatio || 1, px = Math.max(2, Math.floor(size * ratio));
  field = { first, px, columns, ratio, gap: px >= 6 ? Math.max(1, Math.round(ratio)) : 0 };
  canvas.width = px * columns;
  canvas.height = px * Math.ceil(n / columns);
  canvas.style.width = `${canvas.width / ratio}px`;
  canvas.style.height = `${canvas.height / ratio}px`;
  const c = canvas.getContext('2d'), ink = { ...inks() };
  for (let i = first; i < first + n; i++) drawShard(c, i, ink);
  for (const i of fresh) if (inScope(i)) ring(c, i, ink.ink, Math.max(1, Math.round(ratio)));
  if (inScope(at)) {
    ring(c, at, ink.card, Math.round(5 * ratio), 2 * ratio);
    ring(c, at, ink.ink, Math.round(3 * ratio), 2 * ratio);
  }
}

function inks() {
  const s = getComputedStyle(document.documentElement), v = (name) => s.getPropertyValue(name).trim();
  return { ink: v('--ink'), card: v('--card'), orphaned: v('--orphaned'), silent: v('--silent'), outage: v('--outage') };
}

// squareOf returns the corner and the size of the square of a shard.
function squareOf(i) {
  const { first, px, columns, gap } = field, place = i - first;
  return { x: (place % columns) * px, y: Math.floor(place / columns) * px, s: px - gap };
}

function drawShard(c, i, ink) {
  const { x, y, s } = squareOf(i), { px } = field;
  const owner = ownerOf(i), to = moving.get(i);
  if (owner === '' && isUnused(i)) return;
  c.globalAlpha = lit !== '' && owner !== lit && to !== lit ? 0.16 : 1;
  if (owner === '') {
    c.fillStyle = ink.orphaned;
    c.fillRect(x, y, s, s);
    stroke(c, ink.outage, px, (p) => { p(x, y, x + s, y + s); p(x + s, y, x, y + s); });
  } else {
    const colour = colourOf(owner), plain = !moving.has(i) && !silent.has(owner);
    c.fillStyle = plain ? colour.fill : colour.strong;
    c.fillRect(x, y, s, s);
    if (silent.has(owner)) hatch(c, ink.silent, x, y, s);
    else if (plain && s >= 8) texture(c, colour.pattern, x, y, s);
  }
  if (to) {
    c.fillStyle = colourOf(to).strong;
    c.beginPath();
    c.moveTo(x + s, y);
    c.lineTo(x + s, y + s);
    c.lineTo(x, y + s);
    c.fill();
  }
  c.globalAlpha = 1;
}

// hatch darkens what is unavailable: half of it where it is small, stripes where there is room.
function hatch(c, colour, x, y, s) {
  c.fillStyle = colour;
  if (s < 8) {
    c.globalAlpha *= 0.75;
    c.fillRect(x, y, s, s);
    c.globalAlpha /= 0.75;
    return;
  }
  const step = s / 4;
  c.beginPath();
  for (let i = 0; i < 4; i += 2) {
    c.rect(x, y + i * step, s, step);
  }
  c.fill();
}

function stroke(c, colour, px, lines) {
  c.save();
  c.strokeStyle = colour;
  c.lineWidth = Math.max(1, px / 9);
  c.beginPath();
  lines((x0, y0, x1, y1) => { c.moveTo(x0, y0); c.lineTo(x1, y1); });
  c.stroke();
  c.restore();
}

// texture tells owners apart whose colours are alike to somebody.
function texture(c, pattern, x, y, s) {
  if (pattern === 0) return;
  c.fillStyle = dark.matches ? '#0006' : '#fff7';
  if (pattern === 1) {
    c.beginPath();
    c.moveTo(x, y + s);
    c.lineTo(x + s, y);
    c.lineTo(x + s, y + s * 0.3);
    c.lineTo(x + s * 0.3, y + s);
    c.fill();
  } else {
    const d = Math.round(s * 0.36), o = Math.floor((s - d) / 2);
    c.fillRect(x + o, y + o, d, d);
  }
}

function ring(c, i, colour, width, out = 0) {
  const { x, y, s } = squareOf(i);
  c.strokeStyle = colour;
  c.lineWidth = width;
  c.strokeRect(x - out + width / 2 - (out ? width / 2 : 0), y - out + width / 2 - (out ? width / 2 : 0),
    s + 2 * out - (out ? 0 : width), s + 2 * out - (out ? 0 : width));
}

// goTo looks at a shard; keep says that it stays so when the pointer leaves.
function goTo(shard, keep) {
  if (keep) chosen = shard;
  if (at !== shard) {
    at = shard;
    drawShards();
  }
  tell();
}

let asking = 0;

// tell says what is known of the shard at hand, and asks for what is not.
function tell() {
  if (at < 0 || at >= map.owners.length) return;
  const shard = at, text = storyOf(shard);
  say($('detail'), text);
  say($('cell'), text);
  $('cell').setAttribute('aria-posinset', shard - scope().first + 1);
  $('cell').setAttribute('aria-setsize', scope().shards);
  clearTimeout(asking);
  if (!stories.has(shard) && !isUnused(shard)) asking = setTimeout(() => learn(shard, map.epoch), 150);
}

async function learn(shard, epoch) {
  let story = null;
  try {
    const s = serviceOf(shard);
    story = await ask(s ? `/v1/shards/${shard - s.first}?service=${encodeURIComponent(s.name)}` : `/v1/shards/${shard}`);
  } catch { /* what is drawn is what is known */ }
  if (epoch !== map.epoch) return;
  stories.set(shard, story);
  if (shard === at) tell();
}

function storyOf(shard) {
  const owner = ownerOf(shard), story = stories.get(shard), last = story?.moves.at(-1);
  const instance = story?.owner === owner ? story.instance : 0;
  const said = [`${shardName(shard)}: ${named(owner, instance) || (isUnused(shard) ? 'no service' : 'orphaned')}`];
  if (story && story.epoch > 0) said.push(`since epoch ${story.epoch}`);
  if (last) said.push(`${last.from ? `from ${named(last.from, last.from_instance)}` : 'its first owner'}, because: ${last.reason}`);
  if (moving.has(shard)) said.push(`moving to ${targets.get(shard) || 'no owner'}`);
  if (owner !== '' && silent.has(owner)) said.push(`unavailable: ${silent.get(owner)}`);
  const s = sockets?.shards.find((x) => x.shard === shard);
  if (s) said.push(`${count(s.attached + s.detached + s.plain, 'WebSocket')}${s.detached > 0 ? `, ${s.detached} detached` : ''}${s.plain > 0 ? `, ${s.plain} not resumable` : ''}`);
  return said.join(' · ');
}

function shardAt(e) {
  const box = $('canvas').getBoundingClientRect(), { first, px, columns, ratio } = field;
  const x = Math.floor((e.clientX - box.left) * ratio / px), y = Math.floor((e.clientY - box.top) * ratio / px), i = first + y * columns + x;
  return x >= 0 && x < columns && y >= 0 && inScope(i) ? i : -1;
}

$('canvas').addEventListener('pointermove', (e) => {
  const shard = shardAt(e);
  if (shard >= 0) goTo(shard, false);
});
$('canvas').addEventListener('pointerdown', (e) => {
  const shard = shardAt(e);
  if (shard >= 0) goTo(shard, true);
});
$('canvas').addEventListener('pointerleave', () => {
  if (chosen >= 0) goTo(chosen, false);
});
$('grid').addEventListener('focus', () => {
  if (at < 0) goTo(scope().first, true);
});
$('grid').addEventListener('keydown', (e) => {
  const { first, shards } = scope(), w = field.columns;
  const to = {
    ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: at + w, ArrowUp: at - w, PageDown: at + 8 * w, PageUp: at - 8 * w, Home: first, End: first + shards - 1,
  }[e.key];
  if (to === undefined || e.altKey || e.ctrlKey || e.metaKey) return;
  e.preventDefault();
  if (inScope(to)) goTo(to, true);
});
new ResizeObserver(() => drawShards()).observe($('grid'));
dark.addEventListener('change', () => drawShards());
