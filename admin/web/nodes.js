// The table of nodes, and the colour that each has on this page.
const unknown = '–';
const few = 12; // rows that are shown at once, beside those in trouble
let all = false;
let lit = ''; // the node whose shards are shown
let reached = ''; // the row that the keyboard has reached

// A node keeps the colour that it was given first, for as long as the page is open. They are
// quiet: what is in trouble must stand out. The first are far apart also for who does not
// tell red from green; those after them go round the circle by the golden angle. The pattern
// is the second way to tell owners apart; the third is to point at one.
const colours = new Map();
const firstColours = [[214, 46, 62], [36, 72, 66], [165, 36, 50], [318, 30, 66], [56, 48, 58], [200, 55, 76], [22, 32, 48], [246, 34, 56]];
const patterns = 3;

function colourOf(id) {
  let c = colours.get(id);
  if (c === undefined) {
    const i = colours.size, far = i - firstColours.length;
    const [hue, some, bright] = firstColours[i] ?? [(far * 137.508 + 20) % 360, [34, 26, 42][far % 3], [62, 74, 52][Math.floor(far / 3) % 3]];
    c = { fill: `hsl(${hue} ${some}% ${bright}%)`, strong: `hsl(${hue} ${some + 25}% ${bright - 12}%)`, pattern: Math.floor(i / 2) % patterns };
    colours.set(id, c);
  }
  return c;
}

function trouble(n) {
  if (n.state === 'failed' || n.state === 'suspect' || n.state === 'restarting' || n.app === 'unhealthy') return 2;
  return n.state === 'active' && (n.instances ?? []).every((i) => i.state === 'active') ? 0 : 1;
}

const natural = new Intl.Collator('en', { numeric: true });

function showNodes(st, running, sockets) {
  const held = new Map((sockets?.nodes ?? []).map((s) => [s.node, s]));
  const now = new Map((running?.nodes ?? []).map((r) => [r.node, r]));
  const nodes = [...st.nodes].sort((a, b) => trouble(b) - trouble(a) || natural.compare(a.id, b.id));
  [...st.nodes].sort((a, b) => natural.compare(a.id, b.id)).forEach((n) => colourOf(n.id));
  say($('nodes-sum'), sumOf(nodes));
  const shown = nodes.filter((n, i) => all || i < few || trouble(n) > 0 || n.id === st.node || n.id === st.leader || n.id === lit);
  $('more').hidden = nodes.length <= shown.length && !all || nodes.length <= few;
  say($('more'), all ? `Show ${few} and what is in trouble` : `Show all ${nodes.length} nodes`);
  const rows = new Map([...$('rows').children].map((r) => [r.dataset.node, r]));
  const want = shown.map((n) => fillRow(rows.get(n.id) ?? newRow(n.id), n, st, now.get(n.id), held.get(n.id)));
  if (want.length === 0) want.push(el('tr', { role: 'row' }, el('td', { role: 'cell', class: 'quiet', colspan: 12 }, 'none known yet')));
  if (want.length !== $('rows').childElementCount || want.some((r, i) => r !== $('rows').children[i])) keepFocus(() => $('rows').replaceChildren(...want));
  rove();
}

function keepFocus(change) {
  const had = document.activeElement;
  change();
  if (had instanceof HTMLElement && had.isConnected && had !== document.activeElement) had.focus({ preventScroll: true });
}

const versions = (own, app) => [own, app && `app ${app}`].filter(Boolean).join(', ') || unknown;

function sumOf(nodes) {
  const counts = new Map();
  for (const n of nodes) counts.set(n.state, (counts.get(n.state) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).map(([state, n]) => `${n} ${state}`).join(', ');
}

const columns = [...document.querySelectorAll('#nodes th')].map((th) => ({ key: th.dataset.col, head: th.textContent }));

function newRow(id) {
  const row = el('tr', { role: 'row' });
  row.dataset.node = id;
  for (const c of columns) row.append(el('td', { role: 'cell', 'data-col': c.key, 'data-head': c.head }));
  const cells = cellsOf(row), c = colourOf(id);
  const swatch = el('button', { type: 'button', class: 'swatch', 'aria-pressed': 'false', 'aria-label': `show the shards of ${id}`, tabindex: -1 });
  paintSwatch(swatch, c);
  cells.node.append(swatch, el('a', null, el('bdi', null, id)), ' ', el('small'));
  cells.share.append(el('progress', { max: 1000, 'aria-hidden': 'true' }), ' ', el('bdi'), ' ', el('small'));
  cells.share.firstChild.style.color = c.fill;
  return row;
}

const cellsOf = (row) => Object.fromEntries([...row.children].map((td) => [td.dataset.col, td]));

function paintSwatch(swatch, c) {
  const stripe = dark.matches ? '#0006' : '#fff7';
  const image = ['none', `repeating-linear-gradient(135deg, transparent 0 3px, ${stripe} 3px 5px)`, `radial-gradient(${stripe} 2px, transparent 2.5px)`][c.pattern];
  swatch.style.background = `${image === 'none' ? '' : image} ${c.pattern === 2 ? '0 0 / 7px 7px' : ''} ${c.fill}`;
}

// pageOf returns the address of a node's page, if it announces one that can be one.
function pageOf(n) {
  const addr = n.endpoints?.admin ?? '';
  return /^(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9.-]+):\d{1,5}$/.test(addr) ? `//${addr}/status` : '';
}

function fillRow(row, n, st, now, held) {
  const cells = cellsOf(row), here = n.id === st.node;
  row.dataset.trouble = trouble(n);
  row.toggleAttribute('data-lit', n.id === lit);
  cells.node.querySelector('.swatch').setAttribute('aria-pressed', String(n.id === lit));
  const link = cells.node.querySelector('a'), href = here ? '' : pageOf(n);
  if (href && link.getAttribute('href') !== href) link.setAttribute('href', href);
  if (!href) link.removeAttribute('href');
  say(cells.node.lastChild, here ? 'this node' : '');
  say(cells.state, n.state);
  sayWith(cells.role, n.role + (n.voter ? ', voter' : ''), (n.roles ?? []).join(', '));
  sayWith(cells.zone, n.zone || unknown, labelsOf(n));
  sayWith(cells.app, n.app, instancesOf(n));
  cells.app.toggleAttribute('data-bad', n.app === 'unhealthy');
  const whole = (part, all) => (all > 0 ? Math.min(1000, Math.floor(part * 1000 / all)) : 0);
  const bar = whole(n.shards * st.nodes.filter((x) => x.shards > 0).length, 2 * st.shards.total); // half: as much as each
  if (cells.share.firstChild.value !== bar) cells.share.firstChild.value = bar;
  say(cells.share.children[1], String(n.shards));
  say(cells.share.lastChild, `${Math.floor(whole(n.shards, st.shards.total) / 10)} %`);
  say(cells.weight, String(n.weight));
  say(cells.heard, n.last_heartbeat_ms < 0 ? unknown : span(n.last_heartbeat_ms));
  const lease = here ? st.lease_ms : now?.lease_ms;
  say(cells.lease, lease === undefined || lease < 0 ? unknown : lease === 0 && n.role !== 'gateway' ? 'none' : span(lease));
  sayWith(cells.running, now ? String(now.requests + now.websockets) : unknown, resumableOf(held));
  say(cells.waiting, String(here ? st.queue.queued : now?.queued ?? unknown));
  say(cells.version, versions(here ? st.version : n.version || now?.version, n.app_version));
  return row;
}

// labelsOf returns the region and the metadata of a node.
function labelsOf(n) {
  const meta = Object.entries(n.meta ?? {}).sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, value]) => `${key}=${value}`);
  return [n.region && `region ${n.region}`, ...meta].filter(Boolean).join(' · ');
}

// instancesOf returns the shards of each app instance of a node, and the state of those that are not active.
function instancesOf(n) {
  return (n.instances ?? []).map((i) => `${i.number}: ${count(i.shards, 'shard')}${i.state === 'active' ? '' : `, ${i.state}`}`).join(' · ');
}

// resumableOf returns the number of resumable WebSockets of clients of a node.
function resumableOf(s) {
  if (!s || s.attached + s.detached === 0) return '';
  return `${s.attached + s.detached} resumable${s.detached > 0 ? `, ${s.detached} detached` : ''}`;
}

// One stop of the Tab key for all swatches: arrow keys go on from there.
const swatches = () => [...$('rows').querySelectorAll('.swatch')];

function rove() {
  const list = swatches(), at = list.find((s) => s.closest('tr').dataset.node === reached) ?? list[0];
  for (const s of list) s.tabIndex = s === at ? 0 : -1;
}

function light(id) {
  if (lit === id) return;
  lit = id;
  for (const s of swatches()) {
    const on = s.closest('tr').dataset.node === id;
    s.setAttribute('aria-pressed', String(on));
    s.closest('tr').toggleAttribute('data-lit', on);
  }
  drawShards();
}

let pinned = '';
$('rows').addEventListener('click', (e) => {
  const id = e.target.closest('.swatch')?.closest('tr').dataset.node;
  if (id === undefined) return;
  pinned = pinned === id ? '' : id;
  light(pinned);
});
$('rows').addEventListener('pointerover', (e) => {
  if (e.pointerType === 'mouse') light(e.target.closest('tr')?.dataset.node ?? pinned);
});
$('rows').addEventListener('pointerleave', () => light(pinned));
$('rows').addEventListener('focusin', (e) => {
  const row = e.target.closest('.swatch')?.closest('tr');
  if (!row) return;
  reached = row.dataset.node;
  rove();
  if (e.target.matches(':focus-visible')) light(reached);
});
$('rows').addEventListener('focusout', () => light(pinned));
$('rows').addEventListener('keydown', (e) => {
  const list = swatches(), at = list.indexOf(e.target);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: list.length - 1 }[e.key];
  if (at < 0 || to === undefined) return;
  e.preventDefault();
  list[Math.max(0, Math.min(to, list.length - 1))].focus();
});
$('more').addEventListener('click', () => {
  all = !all;
  show();
});
