// An app that keeps its sockets, by ws. What a handler does at once has been done before
// ws answers Close.
const fs = require('fs'), http = require('http'), path = require('path');
const { WebSocketServer } = require('ws');

const dir = process.env.SHARDWAY_E2E_KEPT;
const log = fs.openSync(path.join(dir, 'log-ws-' + process.pid), 'a');
const now = () => Number(process.hrtime.bigint());

const save = (leg) => {
  fs.writeFileSync(leg.file + '.ws', String(leg.N));
  fs.renameSync(leg.file + '.ws', leg.file);
};

const note = (leg, What, N, at = now()) => {
  leg.at = at;
  const { Client, Socket, Leg, Gap } = leg;
  fs.writeSync(log, JSON.stringify({ At: at, Client, Socket, Leg, Gap, What, N }) + '\n');
};

const begin = (ws, leg) => {
  let closed = false;
  ws.on('message', (data) => {
    const [, end, n] = /^(end )?(\d+)$/.exec(String(data));
    note(leg, 'got', Number(n));
    if (end) {
      closed = true;
      note(leg, 'closed', leg.N);
      ws.close(1000);
      return;
    }
    if (ws.readyState !== ws.OPEN) return;
    leg.N++;
    save(leg);
    ws.send(`${leg.Leg} ${leg.N} ${n}`);
  });
  ws.on('error', () => {}); // and close follows
  ws.on('close', (code) => closed || note(leg, code === 1012 ? 'moved' : 'broken', leg.N, leg.at));
};

const sockets = new WebSocketServer({ noServer: true });
sockets.on('headers', (lines) => lines.push('Shardway-WebSocket: keep'));

const server = http.createServer((req, res) => res.writeHead(404).end());
server.on('upgrade', (req, socket, head) => {
  const h = req.headers;
  const leg = {
    Client: new URL(req.url, 'http://app').searchParams.get('client'), Socket: h['shardway-websocket'],
    Leg: Number(h['shardway-websocket-resumed'] ?? 0), Gap: h['shardway-websocket-gap'] === '1', N: 0,
  };
  leg.file = path.join(dir, leg.Socket);
  const known = fs.existsSync(leg.file);
  if (known !== leg.Leg > 0) {
    socket.end('HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n');
    return;
  }
  if (known) leg.N = Number(fs.readFileSync(leg.file));
  note(leg, 'begin', leg.N);
  save(leg);
  sockets.handleUpgrade(req, socket, head, (ws) => begin(ws, leg));
});
server.listen(process.env.PORT, '127.0.0.1');
