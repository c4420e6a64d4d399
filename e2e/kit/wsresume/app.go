//go:build linux

package wsresume

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"shardway/e2e/kit/history"
)

// Environment variables of an app: the directory that all apps share, the interval
// between two numbers, and its port on 127.0.0.1.
const (
	stateVariable    = "SHARDWAY_E2E_WSRESUME"
	intervalVariable = "SHARDWAY_E2E_WSRESUME_INTERVAL" // interval between two numbers
	portVariable     = "PORT"
)

const (
	// reservedNumbers is how many numbers an app reserves when an upstream connection begins.
	// After a crash, the next connection begins behind them.
	reservedNumbers = 1 << 20
	// SendInterval is the interval at which either end sends a number, if there are few clients.
	SendInterval = 5 * time.Millisecond
	// SendWindow is the maximum number of client messages that the app has not received yet.
	// Without it, an app without CPU time would read the Close frame only after seconds
	// of queued messages, and its connection would be broken. Beyond the window, the
	// client sends one message per Nudge, since an app never acknowledges messages that
	// were lost in a gap.
	SendWindow = 16
	// BeyondWindowInterval is in units of Every.
	BeyondWindowInterval = 20
	// ClosePrefix is the prefix of the last number of a client. It asks the app to close.
	ClosePrefix = "end "
)

// Environment returns the environment that makes a process of the test program an app
// which sends a number at this interval.
func Environment(dir string, interval time.Duration) []string {
	return append(os.Environ(), stateVariable+"="+dir, intervalVariable+"="+interval.String())
}

// Serve runs the app if this process was started as an app, and returns true at its end. Otherwise
// it returns false at once. TestMain must call it first.
func Serve() bool {
	dir := os.Getenv(stateVariable)
	if dir == "" {
		return false
	}
	if err := serve(dir, "127.0.0.1:"+os.Getenv(portVariable)); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
	}
	return true
}

func serve(dir, addr string) error {
	log, err := os.CreateTemp(dir, "log-")
	if err != nil {
		return err
	}
	interval, err := time.ParseDuration(os.Getenv(intervalVariable))
	if err != nil {
		return err
	}
	a := &app{dir: dir, log: log, interval: interval, conns: map[string]*appConn{}}
	var handler http.Handler = a
	if slices.Contains(os.Args, Coder) {
		handler = coderApp{a}
	}
	srv := &http.Server{Addr: addr, ReadHeaderTimeout: time.Minute, ConnContext: withConn, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		handler.ServeHTTP(w, r)
	})}
	return srv.ListenAndServe()
}

// app supports resumable WebSockets.
type app struct {
	dir      string
	interval time.Duration

	mu    sync.Mutex
	log   *os.File
	conns map[string]*appConn // the latest connection of each session
}

// entry is a line of the log of an app.
type entry struct {
	At      int64
	Client  string
	Session string
	Conn    uint64
	Gap     bool   `json:",omitempty"`
	What    string // begin, got, or how the connection ended
	N       uint64 // for begin and end: the last number that the app sent
}

// writeEntry writes an entry at once, so that a crash of the app loses nothing.
func (a *app) writeEntry(record entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b, err := json.Marshal(record)
	if err == nil {
		_, err = a.log.Write(append(b, '\n'))
	}
	if err != nil {
		panic(fmt.Sprintf("wsresume: log cannot be written: %v", err))
	}
}

// appConn is an upstream connection of a session, which a node opened.
type appConn struct {
	*app
	entry
	conn         net.Conn
	acceptedConn net.Conn      // the connection below conn, as accepted
	recorded     chan struct{} // closed when all records of the connection are written

	sending  sync.Mutex
	received uint64
	closed   bool // nothing is sent any more
}

// accept returns the connection that a request asks for. It returns an error for a
// session that is resumed but unknown, or new but known.
func (a *app) accept(r *http.Request) (*appConn, error) {
	header := r.Header
	conn := &appConn{app: a, recorded: make(chan struct{}), acceptedConn: connOf(r), entry: entry{Client: r.URL.Query().Get("client"), Session: header.Get("Shardway-WebSocket"), Gap: header.Get("Shardway-WebSocket-Gap") == "1"}}
	conn.Conn, _ = strconv.ParseUint(header.Get("Shardway-WebSocket-Resumed"), 10, 64)
	if strings.Trim(conn.Session, "0123456789abcdef") != "" || len(conn.Session) != 32 {
		return nil, errors.New("invalid session ID")
	}
	known, err := conn.load()
	if err == nil && known != (conn.Conn > 0) {
		err = errors.New("unknown or duplicate session")
	}
	return conn, err
}

// ServeHTTP serves one upstream connection.
func (a *app) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, err := a.accept(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	defer c.register()()
	c.record("begin", c.N)
	c.save(c.N + reservedNumbers)
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		c.record("broken", c.N)
		return
	}
	defer func() { _ = conn.Close() }()
	c.conn = conn
	stop := make(chan struct{})
	var sender sync.WaitGroup
	sender.Go(func() { c.send(stop) })
	defer sender.Wait()
	defer close(stop)
	c.receive(buffered.Reader, r.Header.Get("Sec-WebSocket-Key"))
}

func (c *appConn) record(what string, n uint64) {
	c.At = history.Now()
	c.writeEntry(entry{At: c.At, Client: c.Client, Session: c.Session, Conn: c.Conn, Gap: c.Gap, What: what, N: n})
}

func (c *appConn) statePath() string { return filepath.Join(c.dir, c.Session) }

// load reads the state of a known session.
func (c *appConn) load() (known bool, err error) {
	b, err := os.ReadFile(c.statePath())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		c.N, err = strconv.ParseUint(string(b), 10, 64)
	}
	return true, err
}

// save stores the last number that may have been sent.
func (c *appConn) save(n uint64) {
	temporary := fmt.Sprintf("%s.%d", c.statePath(), os.Getpid())
	err := os.WriteFile(temporary, strconv.AppendUint(nil, n, 10), 0o600)
	if err == nil {
		err = os.Rename(temporary, c.statePath())
	}
	if err != nil {
		panic(fmt.Sprintf("wsresume: state cannot be written: %v", err))
	}
}

// send sends numbers until stop is closed.
func (c *appConn) send(stop <-chan struct{}) {
	tick := time.NewTicker(c.interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-stop:
			return
		}
		c.sending.Lock()
		if c.received > 0 && !c.closed {
			c.N++
			_, _ = c.conn.Write(frame(opText, fmt.Appendf(nil, "%d %d %d", c.Conn, c.N, c.received))) // the reader detects a failure
		}
		c.sending.Unlock()
	}
}

// receive reads messages until the connection ends.
func (c *appConn) receive(r *bufio.Reader, key string) {
	_, err := fmt.Fprintf(c.conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Shardway-WebSocket: keep\r\nSec-WebSocket-Accept: %s\r\n\r\n", acceptKey(key))
	for err == nil {
		var op byte
		var payload []byte
		if op, payload, err = readFrame(r); err != nil {
			break
		}
		if op == opClose {
			c.end(closeCode(payload))
			return
		}
		if op == opPing {
			c.sending.Lock()
			_, err = c.conn.Write(frame(opPong, payload))
			c.sending.Unlock()
			continue
		}
		text, last := strings.CutPrefix(string(payload), ClosePrefix)
		n, _ := strconv.ParseUint(text, 10, 64) // Check detects a zero.
		c.record("got", n)
		c.sending.Lock()
		c.received = n
		c.sending.Unlock()
		if last {
			c.end(1000)
			return
		}
	}
	c.sending.Lock()
	defer c.sending.Unlock()
	c.closed = true
	c.record("broken", c.N)
}

// end ends the connection with a Close frame after all other messages. It first stores
// what the next owner needs, and records the end.
func (c *appConn) end(code uint16) {
	c.sending.Lock()
	defer c.sending.Unlock()
	c.closed = true
	if code == 1012 {
		c.save(c.N)
		c.record("moved", c.N)
	} else {
		c.record("closed", c.N)
	}
	_, _ = c.conn.Write(closeFrame(code))
}
