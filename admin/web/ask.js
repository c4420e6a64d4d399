// Questions to this node, and to no other. A token is kept in this variable and nowhere
// else: whoever loads the page again gives it again.
let token = '';
const timeout = 4000; // ms, of one question

// Refused is an answer that says why not.
class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

function headers(more) {
  const h = { Accept: 'application/json', ...more };
  if (token) h.Authorization = `Bearer ${token}`;
  return h;
}

async function refusal(r) {
  let detail = `${r.status} ${r.statusText}`;
  try {
    detail = (await r.json()).detail || detail;
  } catch { /* no problem of ours: the status says enough */ }
  return new Refused(r.status, detail);
}

// ask returns what a path answers in JSON.
async function ask(path) {
  const r = await fetch(path, { headers: headers(), cache: 'no-store', redirect: 'error', signal: AbortSignal.timeout(timeout) });
  if (!r.ok) throw await refusal(r);
  return r.json();
}

// Silence after which a stream counts as cut: the node breaks it every 15 s.
const silence = 20000;

// follow hands every event to take, from the one after the given id on, and returns when the
// stream ends; open is called when it begins. It is a fetch, because an EventSource shows
// no token.
async function follow(after, signal, open, take) {
  const cut = new AbortController(), both = AbortSignal.any([signal, cut.signal]);
  let timer = setTimeout(() => cut.abort(), timeout);
  const more = after ? { Accept: 'text/event-stream', 'Last-Event-ID': after } : { Accept: 'text/event-stream' };
  const r = await fetch('/v1/events', { headers: headers(more), cache: 'no-store', redirect: 'error', signal: both });
  if (!r.ok) throw await refusal(r);
  open();
  const reader = r.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = '', x; ;) {
    clearTimeout(timer);
    timer = setTimeout(() => cut.abort(), silence);
    x = await reader.read();
    if (x.done) break;
    const whole = (rest + x.value).split('\n\n');
    rest = whole.pop();
    for (const one of whole) {
      const data = one.split('\n').filter((l) => l.startsWith('data: ')).map((l) => l.slice(6)).join('\n');
      if (data) take(JSON.parse(data));
    }
  }
  clearTimeout(timer);
}
