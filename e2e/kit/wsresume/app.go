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

// The environment of an app: a directory that all share, and a port of 127.0.0.1.
const (
	stateVariable = "SHARDWAY_E2E_KEPT"
	everyVariable = "SHARDWAY_E2E_KEPT_EVERY" // how often it sends a number
	portVariable  = "PORT"
)

const (
	// reserved is how many numbers no leg sends: behind a crash the next leg begins there.
	reserved = 1 << 20
	// Every is how often either end sends a number, where there are not too many of them.
	Every = 5 * time.Millisecond
	// Window is how many numbers of a client its app may not have taken yet: an app that gets
	// no processor would find Close behind seconds of them, and its socket be cut. Beyond it
	// the client sends each Nudge: what a gap has swallowed is never taken.
	Window = 16
	// Nudge is in units of Every.
	Nudge = 20
	// Ask is what a client sends, with its last number, to have the app close.
	Ask = "end "
)

// Environment is what makes a process of the test's own program an app that sends a number
// every so often.
func Environment(dir string, every time.Duration) []string {
	return append(os.Environ(), stateVariable+"="+dir, everyVariable+"="+every.String())
}

// Serve is an app if that is what this process was started for, and returns true when it is
// over. Else it returns false at once. It comes first in TestMain.
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
	every, err := time.ParseDuration(os.Getenv(everyVariable))
	if err != nil {
		return err
	}
	a := &app{dir: dir, log: log, every: every, legs: map[string]*appLeg{}}
	var sockets http.Handler = a
	if slices.Contains(os.Args, Coder) {
		sockets = byCoder{a}
	}
	srv := &http.Server{Addr: addr, ReadHeaderTimeout: time.Minute, ConnContext: withConn, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		sockets.ServeHTTP(w, r)
	})}
	return srv.ListenAndServe()
}

// app keeps its sockets.
type app struct {
	dir   string
	every time.Duration

	mu   sync.Mutex
	log  *os.File
	legs map[string]*appLeg // the last one of each socket
}

// note is a line of an app's log.
type note struct {
	At     int64
	Client string
	Socket string
	Leg    uint64
	Gap    bool   `json:",omitempty"`
	What   string // begin, got, or how the leg ended
	N      uint64 // of begin and end: the last number that the app has sent
}

// write notes something at once: a crash of the app loses nothing of it.
func (a *app) write(n note) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b, err := json.Marshal(n)
	if err == nil {
		_, err = a.log.Write(append(b, '\n'))
	}
	if err != nil {
		panic(fmt.Sprintf("kept: notes cannot be written: %v", err))
	}
}

// appLeg is a connection that a node made for a socket.
type appLeg struct {
	*app
	note
	conn net.Conn
	raw  net.Conn      // below it, as it came
	gone chan struct{} // closed when all is noted that there is of it

	sending sync.Mutex
	got     uint64
	over    bool // nothing is sent any more
}

// leg is the one that a request asks for. A socket is unknown if it is resumed and was never
// here.
func (a *app) leg(r *http.Request) (*appLeg, error) {
	h := r.Header
	l := &appLeg{app: a, gone: make(chan struct{}), raw: connOf(r), note: note{Client: r.URL.Query().Get("client"), Socket: h.Get("Shardway-WebSocket"), Gap: h.Get("Shardway-WebSocket-Gap") == "1"}}
	l.Leg, _ = strconv.ParseUint(h.Get("Shardway-WebSocket-Resumed"), 10, 64)
	if strings.Trim(l.Socket, "0123456789abcdef") != "" || len(l.Socket) != 32 {
		return nil, errors.New("no id of a socket")
	}
	known, err := l.load()
	if err == nil && known != (l.Leg > 0) {
		err = errors.New("an unknown socket")
	}
	return l, err
}

// ServeHTTP begins a leg.
func (a *app) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l, err := a.leg(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	defer l.follows()()
	l.notes("begin", l.N)
	l.save(l.N + reserved)
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		l.notes("broken", l.N)
		return
	}
	defer func() { _ = conn.Close() }()
	l.conn = conn
	stop := make(chan struct{})
	var sender sync.WaitGroup
	sender.Go(func() { l.send(stop) })
	defer sender.Wait()
	defer close(stop)
	l.receive(buffered.Reader, r.Header.Get("Sec-WebSocket-Key"))
}

func (l *appLeg) notes(what string, n uint64) {
	l.At = history.Now()
	l.write(note{At: l.At, Client: l.Client, Socket: l.Socket, Leg: l.Leg, Gap: l.Gap, What: what, N: n})
}

func (l *appLeg) file() string { return filepath.Join(l.dir, l.Socket) }

// load reads how far the app is with a socket that it knows.
func (l *appLeg) load() (known bool, err error) {
	b, err := os.ReadFile(l.file())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		l.N, err = strconv.ParseUint(string(b), 10, 64)
	}
	return true, err
}

// save stores the last number that may have been sent.
func (l *appLeg) save(n uint64) {
	temporary := fmt.Sprintf("%s.%d", l.file(), os.Getpid())
	err := os.WriteFile(temporary, strconv.AppendUint(nil, n, 10), 0o600)
	if err == nil {
		err = os.Rename(temporary, l.file())
	}
	if err != nil {
		panic(fmt.Sprintf("kept: state cannot be written: %v", err))
	}
}

// send sends numbers until the leg is over.
func (l *appLeg) send(stop <-chan struct{}) {
	tick := time.NewTicker(l.every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-stop:
			return
		}
		l.sending.Lock()
		if l.got > 0 && !l.over {
			l.N++
			_, _ = l.conn.Write(frame(opText, fmt.Appendf(nil, "%d %d %d", l.Leg, l.N, l.got))) // the reader sees it end
		}
		l.sending.Unlock()
	}
}

// receive takes what comes, until the leg ends in one way or another.
func (l *appLeg) receive(r *bufio.Reader, key string) {
	_, err := fmt.Fprintf(l.conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Shardway-WebSocket: keep\r\nSec-WebSocket-Accept: %s\r\n\r\n", acceptOf(key))
	for err == nil {
		var op byte
		var p []byte
		if op, p, err = readFrame(r); err != nil {
			break
		}
		if op == opClose {
			l.ends(codeOf(p))
			return
		}
		if op == opPing {
			l.sending.Lock()
			_, err = l.conn.Write(frame(opPong, p))
			l.sending.Unlock()
			continue
		}
		text, last := strings.CutPrefix(string(p), Ask)
		n, _ := strconv.ParseUint(text, 10, 64) // the judge is told of a zero
		l.notes("got", n)
		l.sending.Lock()
		l.got = n
		l.sending.Unlock()
		if last {
			l.ends(1000)
			return
		}
	}
	l.sending.Lock()
	defer l.sending.Unlock()
	l.over = true
	l.notes("broken", l.N)
}

// ends ends a leg with a Close of the app, behind all that it sends. What the next owner
// needs, and the end of this leg, are known before that.
func (l *appLeg) ends(code uint16) {
	l.sending.Lock()
	defer l.sending.Unlock()
	l.over = true
	if code == 1012 {
		l.save(l.N)
		l.notes("moved", l.N)
	} else {
		l.notes("closed", l.N)
	}
	_, _ = l.conn.Write(closeFrame(code))
}
