// The table of services, which is there only if the cluster has a list of them. Each service has a range of
// shards; shard numbers that the page shows count from the beginning of the range.
let filter = ''; // the service whose shards are shown; empty: all
let runners = new Map(); // service → the nodes that run it, as the leader said

const services = () => map.services ?? [];
const serviceOf = (shard) => services().find((s) => shard >= s.first && shard < s.first + s.shards);
const shownService = () => services().find((s) => s.name === filter);

// scope returns the range of the shards that are shown: those of one service, or all.
const scope = () => shownService() ?? { first: 0, shards: map.owners.length };
const inScope = (shard) => shard >= scope().first && shard < scope().first + scope().shards;

// isUnused reports whether a shard belongs to no service: the map keeps the shards of removed services.
const isUnused = (shard) => services().length > 0 && !serviceOf(shard);

// shardName names a shard by its number within its service.
function shardName(shard) {
  const s = serviceOf(shard);
  return s ? `Shard ${shard - s.first} of ${s.name}` : `Shard ${shard}`;
}

// askRunners asks which nodes run the services. What the map says is shown without it.
async function askRunners() {
  if (services().length === 0) return;
  const list = await ask('/v1/services');
  runners = new Map(list.services.map((s) => [s.name, s.nodes]));
}

const serviceColumns = [...document.querySelectorAll('#service-table th')].map((th) => ({ key: th.dataset.col, head: th.textContent }));

function showServices() {
  const list = services();
  $('services').hidden = list.length === 0;
  if (filter !== '' && !shownService()) filter = '';
  if (list.length === 0) return;
  say($('services-sum'), count(list.length, 'service'));
  const rows = new Map([...$('service-rows').children].map((r) => [r.dataset.service, r]));
  const want = list.map((s) => fillService(rows.get(s.name) ?? newServiceRow(s.name), s));
  if (want.length !== $('service-rows').childElementCount || want.some((r, i) => r !== $('service-rows').children[i])) keepFocus(() => $('service-rows').replaceChildren(...want));
}

function newServiceRow(name) {
  const row = el('tr', { role: 'row' });
  row.dataset.service = name;
  for (const c of serviceColumns) row.append(el('td', { role: 'cell', 'data-col': c.key, 'data-head': c.head }));
  row.children[0].append(el('button', { type: 'button', class: 'filter', 'aria-label': `show the shards of service ${name}` }, el('bdi', null, name)));
  return row;
}

function fillService(row, s) {
  const cells = cellsOf(row), owners = new Map();
  let orphaned = 0;
  for (let i = s.first; i < s.first + s.shards; i++) {
    const owner = ownerOf(i);
    if (owner === '') orphaned++;
    else owners.set(owner, (owners.get(owner) ?? 0) + 1);
  }
  const named = [...owners].sort(([a], [b]) => natural.compare(a, b)).map(([id, n]) => `${id} ${n}`);
  row.toggleAttribute('data-lit', s.name === filter);
  row.querySelector('.filter').setAttribute('aria-pressed', String(s.name === filter));
  say(cells.range, `${s.first}–${s.first + s.shards - 1} (${count(s.shards, 'shard')})`);
  say(cells.runs, runners.get(s.name)?.join(', ') ?? unknown);
  say(cells.owners, shortened(named) || 'none');
  say(cells.orphaned, String(orphaned));
  cells.orphaned.toggleAttribute('data-bad', orphaned > 0);
  return row;
}

// shortened joins a list, and says how much of it is left out.
const shortened = (list) => (list.length > few ? `${list.slice(0, few).join(', ')} and ${list.length - few} more` : list.join(', '));

$('service-rows').addEventListener('click', (e) => {
  const name = e.target.closest('.filter')?.closest('tr').dataset.service;
  if (name === undefined) return;
  filter = filter === name ? '' : name;
  if (at >= 0 && !inScope(at)) {
    at = chosen = -1;
    say($('detail'), 'Point at a shard, or reach the field with Tab and go with the arrow keys.');
  }
  show();
});
