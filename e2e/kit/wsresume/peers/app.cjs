// An app with resumable WebSockets, based on the library ws. The library answers Close after
// the synchronous part of the message handlers.
const fs = require('fs'), http = require('http'), path = require('path');
const { WebSocketServer } = require('ws');

const dir = process.env.SHARDWAY_E2E_WSRESUME;
const log = fs.openSync(path.join(dir, 'log-ws-' + process.pid), 'a');
const now = () => Number(process.hrtime.bigint());

const save = (conn) => {
  fs.writeFileSync(conn.file + '.ws', String(conn.N));
  fs.renameSync(conn.file + '.ws', conn.file);
};

const record = (conn, What, N, at = now()) => {
  conn.at = at;
  const { Client, Session, Conn, Gap } = conn;
  fs.writeSync(log, JSON.stringify({ At: at, Client, Session, Conn, Gap, What, N }) + '\n');
};

const begin = (ws, conn) => {
  let closed = false;
  ws.on('message', (data) => {
    const [, end, n] = /^(end )?(\d+)$/.exec(String(data));
    record(conn, 'got', Number(n));
    if (end) {
      closed = true;
      record(conn, 'closed', conn.N);
      ws.close(1000);
      return;
    }
    if (ws.readyState !== ws.OPEN) return;
    conn.N++;
    save(conn);
    ws.send(`${conn.Conn} ${conn.N} ${n}`);
  });
  ws.on('error', () => {}); // close follows
  ws.on('close', (code) => closed || record(conn, code === 1012 ? 'moved' : 'broken', conn.N, conn.at));
};

const sockets = new WebSocketServer({ noServer: true });
sockets.on('headers', (lines) => lines.push('Shardway-WebSocket: keep'));

const server = http.createServer((req, res) => res.writeHead(404).end());
server.on('upgrade', (req, socket, head) => {
  const h = req.headers;
  const conn = {
    Client: new URL(req.url, 'http://app').searchParams.get('client'), Session: h['shardway-websocket'],
    Conn: Number(h['shardway-websocket-resumed'] ?? 0), Gap: h['shardway-websocket-gap'] === '1', N: 0,
  };
  conn.file = path.join(dir, conn.Session);
  const known = fs.existsSync(conn.file);
  if (known !== conn.Conn > 0) {
    socket.end('HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n');
    return;
  }
  if (known) conn.N = Number(fs.readFileSync(conn.file));
  record(conn, 'begin', conn.N);
  save(conn);
  sockets.handleUpgrade(req, socket, head, (ws) => begin(ws, conn));
});
server.listen(process.env.PORT, '127.0.0.1');
