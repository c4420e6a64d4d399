// A client that counts, by ws: a socket for each name=url. It says what it gets, and how each
// ends; at the end of its input it asks for that. An app that lags by as much as the first
// argument says is nudged only.
const WebSocket = require('ws');

const [window, ...sockets] = process.argv.slice(2);
if (!(window > 0)) throw new Error(`the window is ${window}, want a number`);

let ending = false;
process.stdin.on('end', () => { ending = true; }).resume();

for (const arg of sockets) {
  const [name, url] = arg.split(/=(.*)/s);
  const ws = new WebSocket(url);
  let sent = 0, ack = 0, ticks = 0, timer, why = '';
  ws.on('open', () => {
    timer = setInterval(() => {
      if (!ending && sent >= ack + Number(window) && ++ticks % 10) return;
      ws.send((ending ? 'end ' : '') + ++sent);
      if (ending) clearInterval(timer);
    }, 10);
  });
  ws.on('message', (data) => {
    ack = Number(String(data).split(' ')[2]);
    console.log(`${name} ${data}`);
  });
  ws.on('error', (e) => { why = e.message; });
  ws.on('close', (code) => {
    clearInterval(timer);
    console.log(`${name} end ${sent} ${code} ${why}`);
  });
}
