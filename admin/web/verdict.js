// The first lines. They say what view.go says.
const marks = { outage: '✕', warning: '△', info: '◇', ok: '✓', lost: '?' };
const words = { outage: 'Outage', warning: 'Warning', info: 'Note' };

// headlineOf returns the severity, the first line and the second.
function headlineOf(st) {
  const [first] = st.findings;
  if (first) {
    const codes = new Set(st.findings.filter((f) => f.severity === first.severity).map((f) => f.code));
    const severity = first.severity in words ? first.severity : 'warning'; // of a newer node
    return [severity, `${words[severity]}: ${[...codes].join(', ')}`, first.text];
  }
  const { total, moving, unavailable } = st.shards;
  if (st.state !== 'operational' && st.state !== 'rebalancing') return ['info', 'Rebalancing', `${st.node} is ${st.state}`];
  if (unavailable > 0) return ['info', 'Rebalancing', `${unavailable} of ${count(total, 'shard')} unavailable`];
  if (moving > 0) return ['info', 'Rebalancing', `${moving} of ${count(total, 'shard')} on the move`];
  return ['ok', 'Healthy', `All ${count(total, 'shard')} served, by ${count(st.nodes.filter((n) => n.shards > 0).length, 'node')}`];
}

function showVerdict(st) {
  const [severity, word, headline] = headlineOf(st);
  setSeverity(severity, word, headline, `${headline} · ${st.node} · Shardway`);
  const list = st.findings.map((f, i) => el('li', { 'data-severity': f.severity },
    el('b', { class: 'code' }, `${f.severity} ${f.code}`), i > 0 ? ' ' : null, i > 0 ? el('span', { class: 'text' }, f.text) : null,
    f.remedy ? ' ' : null, f.remedy ? el('span', { class: 'remedy' }, f.remedy) : null));
  replace($('findings'), list);
  replace($('facts'), factsOf(st).map(([name, value]) => el('div', null, el('dt', null, name), el('dd', null, value))));
}

function setSeverity(severity, word, headline, title) {
  const mark = marks[severity];
  document.documentElement.dataset.severity = severity;
  say($('mark'), mark);
  say($('word'), word);
  say($('headline'), headline);
  const full = severity === 'ok' ? title : `${mark} ${title}`;
  if (document.title !== full) document.title = full;
  setIcon(severity, mark);
}

// setIcon makes the sign that a browser's tab shows.
function setIcon(severity, mark) {
  const colour = { ok: '#1d7a46', info: '#1f5fbf', warning: '#d99000', outage: '#b3141d', lost: '#2a2d31' }[severity];
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="4" fill="${colour}"/>` +
    `<text x="8" y="12.5" font-size="12" font-family="sans-serif" font-weight="700" fill="#fff" text-anchor="middle">${mark}</text></svg>`;
  const href = `data:image/svg+xml,${encodeURIComponent(svg)}`;
  if ($('icon').getAttribute('href') !== href) $('icon').setAttribute('href', href);
}

function factsOf(st) {
  const facts = [
    ['source', `${st.node}, ${st.role}`],
    ['leader', leaderText(st)],
    ['state of the cluster', st.cluster_reason ? `${st.cluster_state}: ${st.cluster_reason}` : st.cluster_state ?? ''],
    ['epoch', st.proposed > st.epoch ? `${st.epoch} → ${st.proposed}` : st.epoch],
    ['term', st.term],
    ['shards here', `${st.shards.owned} of ${st.shards.total}`],
    ['held here', st.shards.held],
    ['moving', st.shards.moving],
    ['unavailable', st.shards.unavailable],
    ['orphaned', st.shards.orphaned],
    ['queued here', count(st.queue.queued, 'request')],
    ['cluster', st.cluster || 'none yet'],
    ['up', span(st.uptime_s * 1000)],
  ];
  if (st.settings) facts.push(['settings', `lease ${st.settings.lease}, dead after ${st.settings.dead_after}, takeover ${st.settings.takeover}`]);
  if (st.keys) facts.push(['keys', keysText(st.keys)]);
  return facts;
}

function leaderText(st) {
  const since = st.leader_since ? ` since ${st.leader_since.replace(/\.\d+Z$/, 'Z')}` : '';
  const lease = st.leader_lease_ms === undefined ? '' : `, lease for ${span(st.leader_lease_ms)}`;
  return `${st.leader || 'none'}${since}${lease}`;
}

function keysText(keys) {
  let text = `${keys.digest.slice(0, 8)} since epoch ${keys.since}`;
  if (keys.changing) text += ', changing now';
  for (const p of keys.pending.slice(0, 4)) {
    text += `; ${p.digest.slice(0, 8)} loaded by ${someNodes(p.loaded)}`;
    if (p.missing.length > 0) text += `, not by ${someNodes(p.missing)}`;
  }
  return text;
}

function someNodes(nodes) {
  const text = nodes.slice(0, 8).join(', ');
  return nodes.length > 8 ? `${text} and ${nodes.length - 8} more` : text;
}

// replace gives an element other children, unless they say the same.
function replace(parent, children) {
  const same = children.length === parent.childElementCount && children.every((c, i) => c.isEqualNode(parent.children[i]));
  if (!same) parent.replaceChildren(...children);
}
