// A client that counts, based on the library ws, with one connection per name=url. It prints
// the messages that it receives and the end of each connection. At the end of its input it asks
// for a close. If the app lags by more messages than the first argument says, the client sends
// only occasional messages.
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
