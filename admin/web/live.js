// What keeps the page true: it looks again when the node says that something has happened,
// and now and then even so; and it says so when it cannot.
const every = 5000; // ms from one look to the next while events come
const slowly = 2000; // and while they do not
const lostAfter = 3000; // ms without an answer, after which nothing here counts as known
let status = null, running = null, sockets = null;
let heard = 0; // when this node last answered, by the clock of this page; 0: never
let why = '';
let wanted = null;
let locked = 'locked' in document.documentElement.dataset; // who looks has to show a token first

function show() {
  if (status === null) return;
  showVerdict(status);
  showNodes(status, running, sockets);
  showServices();
  showShards(status);
  showChanges();
  showLocated();
  showLive();
}

// refresh asks for everything that may have changed.
async function refresh() {
  try {
    const st = await ask('/status');
    const isNew = st.epoch !== map.epoch || namesOf(st.services) !== namesOf(map.services);
    if (isNew || st.shards.moving > 0 || moving.size > 0) {
      const moves = st.shards.moving > 0 ? (await ask('/v1/shards?state=moving')).shards : [];
      takeMap(isNew ? await ask('/v1/map') : map, moves);
    }
    if (status === null) unlocked();
    status = st;
    heard = performance.now();
    why = '';
    show();
  } catch (e) {
    failed(e);
  }
}

// namesOf returns the names of services as one text, to compare two lists.
const namesOf = (list) => (list ?? []).map((s) => s.name).join(' ');

function unlocked() {
  locked = false;
  $('unlock').hidden = true;
  $('cluster').hidden = false;
  for (const s of document.querySelectorAll('.scripted')) s.hidden = s.id === 'changes' || s.id === 'services';
  watchEvents();
}

function failed(e) {
  if (e instanceof Refused && status === null) { // the token, if it is one of 401, 403, 429
    token = '';
    locked = true;
    say($('unlock-said'), e.message);
    return;
  }
  why = e instanceof Refused ? e.message : 'it does not answer';
  showLive();
}

// census asks the nodes what they do, beside all else: one that hangs must not keep the rest
// from being told.
let asked = 0;

function census() {
  if (performance.now() - asked < slowly || locked) return;
  asked = performance.now();
  ask('/v1/running').then((list) => { running = list; show(); }, () => { running = null; });
  askRunners().then(show, () => runners.clear());
  ask('/v1/websockets').then((list) => { sockets = list; show(); }, () => { sockets = null; });
}

// showLive says how old all of this is.
function showLive() {
  if (status === null) return;
  const age = performance.now() - heard, ago = span(Math.floor(age / 1000) * 1000);
  const at = clock(new Date(Date.now() - age));
  if (why !== '' && age > lostAfter) {
    setSeverity('lost', 'Not known', `Not live: ${status.node} was last heard ${ago} ago`, `Not live · ${status.node} · Shardway`);
    showElsewhere();
    live('lost', `${why}. What stands below was so at ${at}, and may be so no more.`);
  } else if (streaming) {
    live('yes', `Live from ${status.node}`);
  } else {
    live('poll', `Not live, asks every ${slowly / 1000} s: last heard ${ago} ago`);
  }
}

// showElsewhere leads to the other nodes' pages, where those are announced.
function showElsewhere() {
  const links = status.nodes.filter((n) => n.id !== status.node && pageOf(n)).slice(0, 8).map((n) => el('a', { href: pageOf(n) }, n.id));
  replace($('findings'), links.length === 0 ? [] : [el('li', { id: 'elsewhere' }, 'Ask another node: ', ...links.flatMap((a, i) => (i > 0 ? [', ', a] : [a])))]);
}

function live(how, text) {
  $('live').dataset.live = how;
  say($('live'), text);
}

// watchEvents follows the node's events for as long as somebody looks: a browser has few
// connections to a node, and they are for all its tabs.
let streaming = false;

async function watchEvents() {
  for (;;) {
    while (document.hidden) await new Promise((go) => { document.addEventListener('visibilitychange', go, { once: true }); });
    const left = new AbortController(), leave = () => left.abort();
    document.addEventListener('visibilitychange', leave, { once: true });
    try {
      await follow(lastEvent, left.signal, () => { streaming = true; showLive(); }, (e) => {
        takeEvent(e);
        soon();
        want();
      });
    } catch { /* cut, refused, or nobody looks: the state is asked for instead */ }
    document.removeEventListener('visibilitychange', leave);
    streaming = false;
    want();
    await pause(slowly);
  }
}

// run looks again at every interval, and at once when something has happened, but no more
// often than once a second.
async function run() {
  for (;;) {
    if (locked && !token) {
      $('unlock').hidden = false;
      await wish();
    } else {
      const next = wish(); // what happens from now on
      if (!document.hidden) {
        census();
        await refresh();
      }
      await pause(1000);
      await Promise.race([pause((streaming ? every : slowly) - 1000), next]);
    }
  }
}

const wish = () => new Promise((go) => { wanted = go; });
const pause = (ms) => new Promise((go) => { setTimeout(go, ms); });
const want = () => wanted?.();

$('unlock').addEventListener('submit', (e) => {
  e.preventDefault();
  token = $('token').value.trim();
  $('token').value = '';
  want();
});
document.addEventListener('visibilitychange', want);
setInterval(showLive, 1000);
run();
