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

// Environment variables of an app.
const (
	stateVariable    = "SHARDWAY_E2E_WSRESUME"          // directory that all apps share
	intervalVariable = "SHARDWAY_E2E_WSRESUME_INTERVAL" // interval between two messages of the app
	portVariable     = "PORT"                           // port on 127.0.0.1
)

const (
	// reservedNumbers is the number of message numbers that an app reserves when an upstream
	// connection begins. After a crash, the next connection continues after the reserved numbers.
	reservedNumbers = 1 << 20
	// SendInterval is the interval at which the client and the app send messages, if there are few
	// clients. Each message contains a number.
	SendInterval = 5 * time.Millisecond
	// SendWindow is the maximum number of client messages that the app has not acknowledged yet.
	// Without this limit, an app without CPU time would read the Close frame only after seconds of
	// queued messages, and its connection would be aborted. When the window is full, the client
	// still sends one message per BeyondWindowInterval, because an app never acknowledges messages
	// that were lost in a gap.
	SendWindow = 16
	// BeyondWindowInterval is a multiple of SendInterval.
	BeyondWindowInterval = 20
	// ClosePrefix is the prefix of the last message of a client. It asks the app to close the
	// connection.
	ClosePrefix = "end "
)

// Environment returns the environment in which a process of the test program is an app. dir is the
// directory that all apps share, and interval the time between two messages of the app.
func Environment(dir string, interval time.Duration) []string {
	return append(os.Environ(), stateVariable+"="+dir, intervalVariable+"="+interval.String())
}

// Serve runs the app if this process was started as an app, and returns true at its end. Otherwise
// it returns false immediately. TestMain must call it first.
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

// serve serves upstream connections at an address. It responds to any other request, such as a health check,
// with 204. dir is the directory that all apps share.
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
	serveUpgrades := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		handler.ServeHTTP(w, r)
	}
	srv := &http.Server{Addr: addr, ReadHeaderTimeout: time.Minute, ConnContext: withConn, Handler: http.HandlerFunc(serveUpgrades)}
	return srv.ListenAndServe()
}

// app is an app that supports resumable WebSockets.
type app struct {
	dir      string
	interval time.Duration

	// mu protects the following fields.
	mu    sync.Mutex
	log   *os.File
	conns map[string]*appConn // latest connection of each session, by session ID
}

// Events of an upstream connection in the log of an app. All except the first two end the connection.
const (
	eventBegin    = "begin"  // a node opened the connection
	eventReceived = "got"    // the app received a message of the client
	eventMoved    = "moved"  // the app closed the connection because the shard moves to another owner
	eventClosed   = "closed" // the app closed the connection because the client asked for that
	eventBroken   = "broken" // the connection failed without a Close frame
)

// entry is a line of the log of an app.
type entry struct {
	Time      int64 `json:"At"` // value of history.Now
	Client    string
	Session   string
	ConnIndex uint64 `json:"Conn"`       // number of the upstream connection within its session
	Gap       bool   `json:",omitempty"` // the node reported that messages may be lost
	Event     string `json:"What"`       // eventBegin, eventReceived or how the connection ended
	// MessageNumber is the number of the received message for eventReceived. For all other events it is
	// appConn.lastSent, the number of the last message that the app sent.
	MessageNumber uint64 `json:"N"`
}

// appendToLog appends an entry to the log immediately, so that a crash of the app loses no entry. It panics if
// that fails, because the checks of the test are meaningless without a complete log.
func (a *app) appendToLog(written entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	line, err := json.Marshal(written)
	if err == nil {
		_, err = a.log.Write(append(line, '\n'))
	}
	if err != nil {
		panic(fmt.Sprintf("wsresume: log cannot be written: %v", err))
	}
}

// appConn is an upstream connection of a session, which a node opened.
type appConn struct {
	*app
	entry                      // the fields that all log entries of the connection have in common
	conn         net.Conn      // the connection after the upgrade
	acceptedConn net.Conn      // the TCP connection that the server accepted
	recorded     chan struct{} // closed when all log entries of the connection are written

	// sendMu protects the following fields, and writes to conn.
	sendMu       sync.Mutex
	lastSent     uint64 // number of the last message that the app has sent in the session
	lastReceived uint64 // number of the last message of the client on this connection
	isClosed     bool   // nothing is sent any more
}

// sessionIDLength is the length of a session ID, in hexadecimal digits.
const sessionIDLength = 32

// accept returns the connection that a request opens. It returns an error for a resumed session that
// is unknown, and for a new session whose ID is known.
func (a *app) accept(r *http.Request) (*appConn, error) {
	header := r.Header
	conn := &appConn{
		app: a, recorded: make(chan struct{}), acceptedConn: connOf(r),
		entry: entry{
			Client: r.URL.Query().Get("client"), Session: header.Get("Shardway-WebSocket"), Gap: header.Get("Shardway-WebSocket-Gap") == "1",
		},
	}
	conn.ConnIndex, _ = strconv.ParseUint(header.Get("Shardway-WebSocket-Resumed"), 10, 64)
	isHex := strings.Trim(conn.Session, "0123456789abcdef") == ""
	if !isHex || len(conn.Session) != sessionIDLength {
		return nil, errors.New("invalid session ID")
	}
	isKnown, err := conn.loadLastSent()
	isResumed := conn.ConnIndex > 0
	if err == nil && isKnown != isResumed {
		err = errors.New("unknown or duplicate session")
	}
	return conn, err
}

// ServeHTTP serves one upstream connection.
func (a *app) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	upstream, err := a.accept(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	defer upstream.register()()
	upstream.logEvent(eventBegin, upstream.lastSent)
	upstream.storeLastSent(upstream.lastSent + reservedNumbers)
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		upstream.logEvent(eventBroken, upstream.lastSent)
		return
	}
	defer func() { _ = conn.Close() }()
	upstream.conn = conn
	stop := make(chan struct{})
	var sender sync.WaitGroup
	sender.Go(func() { upstream.send(stop) })
	defer sender.Wait()
	defer close(stop)
	upstream.receive(buffered.Reader, r.Header.Get("Sec-WebSocket-Key"))
}

// logEvent appends an event of the connection to the log. number is explained at entry.MessageNumber.
func (c *appConn) logEvent(event string, number uint64) {
	c.Time = history.Now()
	c.appendToLog(entry{Time: c.Time, Client: c.Client, Session: c.Session, ConnIndex: c.ConnIndex, Gap: c.Gap, Event: event, MessageNumber: number})
}

func (c *appConn) statePath() string { return filepath.Join(c.dir, c.Session) }

// loadLastSent sets lastSent to the number that storeLastSent stored for the session. known is false for a
// new session.
func (c *appConn) loadLastSent() (known bool, err error) {
	data, err := os.ReadFile(c.statePath())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		c.lastSent, err = strconv.ParseUint(string(data), 10, 64)
	}
	return true, err
}

// storeLastSent stores the number of the last message that may have been sent, for the next connection of
// the session. It panics if that fails, because the next connection would then repeat numbers.
func (c *appConn) storeLastSent(number uint64) {
	temporary := fmt.Sprintf("%s.%d", c.statePath(), os.Getpid())
	err := os.WriteFile(temporary, strconv.AppendUint(nil, number, 10), 0o600)
	if err == nil {
		err = os.Rename(temporary, c.statePath())
	}
	if err != nil {
		panic(fmt.Sprintf("wsresume: state cannot be written: %v", err))
	}
}

// send writes one numbered message per tick until stop is closed. It starts after the first message of the
// client.
func (c *appConn) send(stop <-chan struct{}) {
	tick := time.NewTicker(c.interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-stop:
			return
		}
		c.sendMu.Lock()
		if c.lastReceived > 0 && !c.isClosed {
			c.lastSent++
			_, _ = c.conn.Write(frame(opText, fmt.Appendf(nil, "%d %d %d", c.ConnIndex, c.lastSent, c.lastReceived))) // the reader detects a failure
		}
		c.sendMu.Unlock()
	}
}

// receive reads messages until the connection ends.
func (c *appConn) receive(reader *bufio.Reader, key string) {
	_, err := fmt.Fprintf(c.conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Shardway-WebSocket: keep\r\nSec-WebSocket-Accept: %s\r\n\r\n", acceptKey(key))
	for hasEnded := false; err == nil && !hasEnded; {
		hasEnded, err = c.receiveFrame(reader)
	}
	if err == nil {
		return
	}
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	c.isClosed = true
	c.logEvent(eventBroken, c.lastSent)
}

// receiveFrame reads and handles one frame. hasEnded reports that the connection has ended with a Close
// frame.
func (c *appConn) receiveFrame(reader *bufio.Reader) (hasEnded bool, err error) {
	opcode, payload, err := readFrame(reader)
	if err != nil {
		return false, err
	}
	switch opcode {
	case opClose:
		c.end(closeCode(payload))
		return true, nil
	case opPing:
		c.sendMu.Lock()
		defer c.sendMu.Unlock()
		_, err = c.conn.Write(frame(opPong, payload))
		return false, err
	}
	text, isLast := strings.CutPrefix(string(payload), ClosePrefix)
	number, _ := strconv.ParseUint(text, 10, 64) // 0 on error; Check reports it
	c.logEvent(eventReceived, number)
	c.sendMu.Lock()
	c.lastReceived = number
	c.sendMu.Unlock()
	if isLast {
		c.end(statusNormalClosure)
	}
	return isLast, nil
}

// end ends the connection with a Close frame after all other messages. It first stores lastSent if the
// session continues at the next owner, and logs how the connection ended.
func (c *appConn) end(code uint16) {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	c.isClosed = true
	if code == statusServiceRestart {
		c.storeLastSent(c.lastSent)
		c.logEvent(eventMoved, c.lastSent)
	} else {
		c.logEvent(eventClosed, c.lastSent)
	}
	_, _ = c.conn.Write(closeFrame(code))
}
