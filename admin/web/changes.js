// What happened, the newest first: changes of the map with their phases, and what led to
// them.
const mostLines = 40;
let happened = []; // events, the oldest first; what is told of one change is one of them
let lastEvent = '';

// phaseNames are those of docs/reference/events.md, in the order in which they follow each other.
const phases = { log: ['into the log', 214], drain: ['stopped and drained', 36], acknowledge: ['all acknowledged', 165], wait: ['until it was in force', 165], commit: ['commit', 318] };

function takeEvent(e) {
  lastEvent = e.id;
  if (e.kind === 'lost') happened = [];
  if (e.kind.startsWith('map-')) {
    // The later ones of a change have all that the earlier ones had.
    const before = happened.findIndex((x) => x.epoch === e.epoch && x.kind.startsWith('map-'));
    if (before >= 0) happened[before] = { ...e, time: happened[before].time, ended: e.time };
    else happened.push(e);
  } else if (!['node-voter', 'node-nonvoter', 'shards-moved'].includes(e.kind)) {
    happened.push(e);
  }
  if (happened.length > 4 * mostLines) happened = happened.slice(-2 * mostLines);
}

let drawing = false;

// soon shows the events that have come with the next picture: they come by the hundred at
// first.
function soon() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    showChanges();
  });
}

function showChanges() {
  replace($('history'), happened.slice(-mostLines).reverse().map(lineOf));
  $('changes').hidden = happened.length === 0;
}

function lineOf(e) {
  const line = el('li', { 'data-kind': e.kind }, el('p', { class: 'line' },
    el('time', { class: 'when', datetime: e.time, title: e.time }, clock(new Date(e.time))), ...partsOf(e)));
  if (e.change?.phases?.length) line.append(...barOf(e));
  return line;
}

function partsOf(e) {
  const about = e.node ? el('bdi', { class: 'who' }, named(e.node, e.instance)) : null;
  if (e.change) return changeOf(e);
  if (e.finding) {
    const ended = e.kind === 'finding-cleared';
    return [el('b', null, ended ? `no more ${e.finding.code}` : `${e.finding.severity} ${e.finding.code}`), ended ? null : el('span', null, e.finding.text)].filter(Boolean);
  }
  if (e.websockets) {
    const s = e.websockets;
    return [el('b', null, `${count(s.websockets, 'WebSocket')} of ${count(s.shards, 'shard')} moved`), el('span', null, `${s.gaps} with a gap, ${s.lost} lost, interrupted for up to ${fine(s.longest_ms)}`)];
  }
  if (e.action) return [el('b', null, e.action.what), el('span', null, `${e.action.by} · ${e.action.status}${e.action.reason ? ` · ${e.action.reason}` : ''}`)];
  return [el('b', null, e.kind.replaceAll('-', ' ')), about, e.reason ? el('span', null, `because: ${e.reason}`) : null].filter(Boolean);
}

// changeOf says of a change of the map how far it is, what it moves, and why.
function changeOf(e) {
  const c = e.change, now = status?.epoch ?? 0, open = e.kind !== 'map-committed' && now !== e.epoch;
  const state = e.kind === 'map-abandoned' ? 'given up' : !open ? '' : now > e.epoch ? 'given up for a later one' : e.kind === 'map-acknowledged' ? 'acknowledged here' : 'proposed';
  const parts = [el('b', { class: 'epoch' }, `epoch ${e.epoch}`)];
  if (state) parts.push(el('span', { class: 'open' }, state));
  if (c.from_log) parts.push(el('span', null, 'found in the log at the start'));
  else parts.push(el('span', null, `${count(c.moved, 'shard')} moved${e.reason ? `, because: ${e.reason}` : ''}`));
  const ways = (c.moves ?? []).slice(0, 4).map((w) => `${named(w.from, w.from_instance) || 'orphaned'} → ${named(w.to, w.to_instance) || 'orphaned'} ${w.shards}`);
  if ((c.moves ?? []).length > 4) ways.push(`and ${c.moves.length - 4} more ways`);
  if (c.queued > 0) parts.push(el('span', null, `${count(c.queued, 'request')} queued here`));
  if (ways.length > 0) parts.push(el('small', null, ways.join(' · ')));
  return parts;
}

// barOf draws the phases of a change. The leader's tell the whole of it; another node has
// its own two.
function barOf(e) {
  const told = e.change.phases, whole = told.some((p) => p.name === 'acknowledge');
  const shown = told.filter((p) => p.name in phases && (whole ? ['log', 'acknowledge', 'commit'] : ['drain', 'wait']).includes(p.name));
  const sum = shown.reduce((n, p) => n + p.ms, 0);
  if (shown.length === 0) return [];
  const bar = el('div', { class: 'phases', 'aria-hidden': 'true' }, ...shown.map((p) => {
    const part = el('i');
    part.style.flexGrow = String(Math.max(p.ms, sum / 200));
    part.style.background = `hsl(${phases[p.name][1]} 42% 55%)`;
    return part;
  }));
  const said = el('p', { class: 'took' }, ...shown.map((p) => {
    const key = el('i');
    key.style.background = `hsl(${phases[p.name][1]} 42% 55%)`;
    return el('span', null, key, `${phases[p.name][0]} ${fine(p.ms)}`);
  }), el('span', null, `${fine(sum)} in all`));
  return [bar, said];
}

const fine = (ms) => (ms < 10 ? `${ms.toFixed(1)} ms` : span(ms));
