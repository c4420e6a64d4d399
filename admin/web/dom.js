// Markup. Whatever comes from the server goes through here, and becomes text: ids, zones
// and reasons are what somebody chose to call things.
const $ = (id) => document.getElementById(id);

// el makes an element; what is not a node among its children becomes text.
function el(name, attributes, ...children) {
  const e = document.createElement(name);
  for (const [k, v] of Object.entries(attributes ?? {})) {
    if (v !== undefined && v !== null && v !== false) e.setAttribute(k, v === true ? '' : String(v));
  }
  e.append(...children.filter((c) => c !== undefined && c !== null).map((c) => (c instanceof Node ? c : String(c))));
  return e;
}

// say sets the text of an element, and leaves it alone if it says so already: a screen
// reader repeats what is set.
function say(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

// sayWith is say with a note behind the text, if there is one.
function sayWith(e, text, note) {
  if (e.textContent === (note ? `${text} ${note}` : text)) return;
  e.replaceChildren(text, ...(note ? [' ', el('small', null, note)] : []));
}

// span writes milliseconds as the served page does.
function span(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(1)} s`;
  const s = Math.floor(ms / 1000), h = Math.floor(s / 3600), m = Math.floor(s / 60) % 60;
  return h > 0 ? `${h}h${m}m${s % 60}s` : `${m}m${s % 60}s`;
}

const count = (n, what) => (n === 1 ? `1 ${what}` : `${n} ${what}s`);
const clock = (date) => date.toLocaleTimeString([], { hour12: false });
const still = matchMedia('(prefers-reduced-motion: reduce)');
const dark = matchMedia('(prefers-color-scheme: dark)');
