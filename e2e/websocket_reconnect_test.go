//go:build linux

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"shardway/e2e/kit/cluster"
)

// opaqueAppScript is an app of two kinds without resumable WebSockets: the real
// Socket.IO, with compression, and the part of a hub that the client of SignalR needs,
// whose server is .NET. Both echo a number, with the ID of their node.
const opaqueAppScript = `
const http = require('http'), { Server } = require('socket.io'), { WebSocketServer } = require('ws');
const ends = [], wrong = [], end = '\x1e';

const server = http.createServer((req, res) => {
  const answers = {
    '/saw': { ends, wrong },
    '/hub/negotiate': { negotiateVersion: 1, connectionId: 'i', connectionToken: 't', availableTransports: [{ transport: 'WebSockets', transferFormats: ['Text'] }] },
  }, answer = answers[new URL(req.url, 'http://app').pathname];
  res.writeHead(answer ? 200 : 404, { 'Content-Type': 'application/json' }).end(JSON.stringify(answer ?? {}));
});

const io = new Server(server, { destroyUpgrade: false, perMessageDeflate: { threshold: 1 } });
io.on('connection', (s) => s.on('say', (n) => s.emit('said', n, s.handshake.headers['shardway-node'])));
io.engine.on('connection', (s) => {
  const watch = (by) => by.name === 'websocket' && by.socket.on('close', (code) => ends.push('Socket.IO: ' + code));
  watch(s.transport);
  s.on('upgrade', watch);
});

const hub = new WebSocketServer({ noServer: true });
hub.on('connection', (ws, req) => {
  ws.on('close', (code) => ends.push('SignalR: ' + code));
  ws.on('message', (data) => String(data).split(end).slice(0, -1).map(JSON.parse).forEach((m) => {
    if (m.protocol) ws.send('{}' + end);
    if (m.type === 1) ws.send(JSON.stringify({ type: 3, invocationId: m.invocationId, result: req.headers['shardway-node'] }) + end);
  }));
});

// No app is asked to resume, and a request that is no WebSocket has no session ID.
const look = (kind, has) => server.prependListener(kind, ({ headers, url }) => {
  if (headers['shardway-websocket-resumed'] || !!headers['shardway-websocket'] !== has) wrong.push(kind + ' ' + url + ' ' + JSON.stringify(headers));
});
look('request', false);
look('upgrade', true);
server.on('upgrade', (req, socket, head) => {
  if (req.url.startsWith('/hub?')) hub.handleUpgrade(req, socket, head, (ws) => hub.emit('connection', ws, req));
});
server.listen(process.env.PORT, '127.0.0.1');
`

// opaqueClientScript has clients of both libraries that send numbers, each after the echo
// of the previous one, for each name=kind=URL. They reconnect on their own.
const opaqueClientScript = `
const { io } = require('socket.io-client'), { HubConnectionBuilder, HttpTransportType, LogLevel } = require('@microsoft/signalr');

const talker = (name, say) => {
  const tell = (...words) => console.log([name, ...words].join(' '));
  let n = 0, timer;
  return {
    begin: () => say(n + 1),
    heard: (m, node, by) => {
      if (m !== n + 1) tell('wrong', m, 'behind', n);
      tell('heard', n = m, node, by);
      timer = setTimeout(() => say(n + 1), 10);
    },
    ended: (...how) => { clearTimeout(timer); tell('ended', ...how); },
    broken: (e) => tell('wrong', e?.message),
  };
};

const kinds = {
  upgraded: (name, url) => socketIO(name, url, ['polling', 'websocket']), // the default of the library
  websocket: (name, url) => socketIO(name, url, ['websocket']),
  signalr: (name, url) => {
    const hub = new HubConnectionBuilder().withUrl(url.replace('/?', '/hub?'), { transport: HttpTransportType.WebSockets })
      .configureLogging(LogLevel.None).withAutomaticReconnect(Array(100).fill(100)).build();
    const t = talker(name, (n) => hub.invoke('say', n).then((node) => t.heard(n, node, 'websocket'), () => {})); // onreconnecting reports the error
    hub.onreconnecting((e) => t.ended('transport', 'close', ...e.message.match(/\d{4}/)));
    hub.onreconnected(t.begin);
    hub.onclose(t.broken);
    hub.start().then(t.begin, t.broken);
  },
};

const socketIO = (name, url, transports) => {
  const socket = io(url, { transports, forceNew: true, reconnectionDelay: 100 });
  const t = talker(name, (n) => socket.emit('say', n));
  socket.on('connect', t.begin);
  socket.on('said', (n, node) => t.heard(n, node, socket.io.engine.transport.name));
  socket.on('disconnect', (reason, details) => t.ended(reason, details?.context?.code));
};

for (const arg of process.argv.slice(2)) {
  const [name, kind, url] = arg.split(/=([a-z]+)=(.*)/s);
  kinds[kind](name, url);
}
`

// reconnectClient is a client of such a library.
type reconnectClient struct {
	name string

	mu       sync.Mutex
	heard    int    // the last echoed number
	node, by string // the node that echoed it, and the transport
	ended    []string
	wrong    string
}

// receiveLine receives a line of the script, without the name of the client.
func (c *reconnectClient) receiveLine(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	what, rest, _ := strings.Cut(text, " ")
	switch what {
	case "heard":
		if _, err := fmt.Sscanf(rest, "%d %s %s", &c.heard, &c.node, &c.by); err != nil {
			c.wrong = text
		}
	case "ended":
		c.ended = append(c.ended, rest)
	default:
		c.wrong = text
	}
}

// awaitGoesOn waits until more numbers are echoed by a node, over a WebSocket.
func (c *reconnectClient) awaitGoesOn(t *testing.T, node string) {
	t.Helper()
	from := -1
	cluster.Await(t, c.name+" continues at "+node, func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if from < 0 && c.node == node && c.by == "websocket" {
			from = c.heard
		}
		if c.wrong != "" {
			t.Fatalf("%s: %s", c.name, c.wrong)
		}
		if from < 0 || c.heard < from+10 || c.node != node {
			return fmt.Errorf("it received %d from %q over %q, after it had ended with %q", c.heard, c.node, c.by, c.ended)
		}
		return nil
	})
}

// runOpaque runs clients until the test ends, with kinds and URLs by name.
func runOpaque(t *testing.T, script string, clients map[string]string) (list []*reconnectClient) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	cmd := exec.CommandContext(ctx, "node", script)
	cmd.Stderr = os.Stderr
	byName := map[string]*reconnectClient{}
	for name, what := range clients {
		cmd.Args = append(cmd.Args, name+"="+what)
		byName[name] = &reconnectClient{name: name}
		list = append(list, byName[name])
	}
	runScript(t, cmd, cancel, byName)
	return list
}

// opaqueRecord is what an app observed: how its WebSockets ended, and unexpected events.
type opaqueRecord struct{ Ends, Wrong []string }

func (a *exampleApp) saw(t *testing.T) (saw opaqueRecord, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+a.addr+"/saw", nil)
	must(t, err)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return saw, err
	}
	defer func() { _ = resp.Body.Close() }()
	return saw, json.NewDecoder(resp.Body).Decode(&saw)
}

// TestSocketIOAndSignalRReconnect has the real Socket.IO with long polling that is
// upgraded to a WebSocket, and with a WebSocket only, and the client of SignalR with a
// hub, at the owner and at another node. Each node has its own app, so a session of one
// app is unknown to the next. Their shard moves: client and app get 1012, no app is asked
// to resume, and the libraries reconnect automatically to the new owner.
func TestSocketIOAndSignalRReconnect(t *testing.T) {
	t.Parallel() // it waits for the others most of the time
	dir := t.TempDir()
	if !npmInstalls(t, dir, "socket.io@4.8.4", "socket.io-client@4.8.4", "@microsoft/signalr@10.0.11", "ws@8") {
		t.Skip("the libraries are not there")
	}
	appFile, clientFile := filepath.Join(dir, "app.cjs"), filepath.Join(dir, "client.cjs")
	must(t, os.WriteFile(appFile, []byte(opaqueAppScript), 0o600))
	must(t, os.WriteFile(clientFile, []byte(opaqueClientScript), 0o600))
	f := startExample(t, []string{"node", appFile}, "--key", "query:key")
	owner := f.Follower(t)
	key := f.AwaitServing(t).Keys(owner.ID, 1)[0]
	clients := map[string]string{}
	for _, at := range []*cluster.Node{owner, f.Others(owner)[0]} {
		for _, kind := range []string{"upgraded", "websocket", "signalr"} {
			clients[kind+"-at-"+at.ID] = kind + "=http://" + at.Addr + "/?key=" + key
		}
	}
	ends := runOpaque(t, clientFile, clients)
	for _, c := range ends {
		c.awaitGoesOn(t, owner.ID)
	}
	if out, code := shardway(t, "drain", owner.ID, "--wait", "--admin", owner.Admin); code != 0 {
		t.Fatalf("drain %s: exit %d, %s", owner.ID, code, out)
	}
	next := f.AwaitServedBy(t, f.Others(owner)...).OwnerOf(key)
	for _, c := range ends {
		c.awaitGoesOn(t, next)
		c.mu.Lock()
		if want := []string{"transport close 1012"}; !slices.Equal(c.ended, want) {
			t.Errorf("%s: its connections ended with %q, want %q", c.name, c.ended, want)
		}
		c.mu.Unlock()
	}
	want := []string{"SignalR: 1012", "SignalR: 1012", "Socket.IO: 1012", "Socket.IO: 1012", "Socket.IO: 1012", "Socket.IO: 1012"}
	for id, a := range f.apps {
		var saw opaqueRecord
		cluster.Await(t, "the app of "+id+" sees its sockets end", func() (err error) {
			if saw, err = a.saw(t); err == nil && id == owner.ID && len(saw.Ends) < len(want) {
				err = fmt.Errorf("it saw %q", saw.Ends)
			}
			return err
		})
		slices.Sort(saw.Ends)
		if id == owner.ID && !slices.Equal(saw.Ends, want) || id != owner.ID && len(saw.Ends) > 0 {
			t.Errorf("the sockets of %s ended with %q", id, saw.Ends)
		}
		if len(saw.Wrong) > 0 {
			t.Errorf("the app of %s received %q", id, saw.Wrong)
		}
	}
}
