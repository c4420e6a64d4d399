//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"shardway/e2e/history"
	"shardway/e2e/store"
)

// app is the recording app. Its methods may run on any goroutine.
type app struct {
	name string
	out  io.Writer
	// registers is nil without --store.
	registers *registers
	// state is nil without --state.
	state *state
	// cache is nil without --cache.
	cache *cache
	// instance names this process to health checks, empty without --instance.
	instance string
	// port is where it serves; nil before that.
	listener *reopenableListener

	mu     sync.Mutex
	runs   []history.Run
	requestCounts map[string]uint64 // per key
	gates  map[string]*gate
	unhealthy   bool // /health answers 503
}

// gate is a name under which requests hang.
type gate struct {
	open    chan struct{}
	waiting int
}

func newApp(name string, out io.Writer) *app {
	return &app{name: name, out: out, requestCounts: make(map[string]uint64), gates: make(map[string]*gate)}
}

// ServeHTTP tells work from control by the header that only a node sets.
func (a *app) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Shardway-Shard") != "" {
		a.serveRequest(w, r)
		return
	}
	if a.state != nil {
		if strings.HasPrefix(r.URL.Path, hookPath) {
			a.state.serveHook(w, r)
			return
		}
		if a.state.serveControl(w, r) {
			return
		}
	}
	q := r.URL.Query()
	switch r.URL.Path {
	case "/sick":
		a.mu.Lock()
		a.unhealthy = q.Get("on") == "true"
		a.mu.Unlock()
		writeJSON(w, a.name)
	case "/health":
		a.mu.Lock()
		sick := a.unhealthy
		a.mu.Unlock()
		if a.instance != "" {
			w.Header().Set("Shardway-App-Instance", a.instance)
		}
		if sick {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		writeJSON(w, a.name)
	case "/forget":
		if a.cache != nil {
			a.cache.dropAll()
		}
		writeJSON(w, a.name)
	case "/close-port":
		d, err := time.ParseDuration(q.Get("for"))
		if err != nil || a.listener == nil {
			http.Error(w, "close-port: for must be a duration", http.StatusBadRequest)
			return
		}
		a.listener.closeFor(d, q.Get("all") == "true")
		writeJSON(w, a.name)
	case "/records":
		a.mu.Lock()
		runs := append([]history.Run{}, a.runs...)
		a.mu.Unlock()
		writeJSON(w, runs)
	case "/executions":
		writeJSON(w, a.countRuns(q.Get("id")))
	case "/release":
		a.openGate(q.Get("name"))
	case "/hanging":
		a.mu.Lock()
		n := a.gateLocked(q.Get("name")).waiting
		a.mu.Unlock()
		writeJSON(w, n)
	default:
		writeJSON(w, a.name)
	}
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// work is one run: recorded when it starts and again when it ends, which is just
// before the last bytes of its answer are written. Whoever has read those may
// rely on the run's being over.
func (a *app) serveRequest(w http.ResponseWriter, r *http.Request) {
	if a.state != nil && !a.hasAcquired(r) {
		notAcquired(w)
		return
	}
	run, count := a.startRun(r)
	ended := false
	defer func() {
		if !ended {
			run.Cut = true
			a.endRun(run)
		}
	}()
	// The whole body is read first: only then does the server notice a client
	// that leaves.
	var start prefixBuffer
	if _, err := io.Copy(&start, r.Body); err != nil {
		return
	}
	b := parseBehaviour(r.Header)
	if hold := r.Header.Get("App-Hold"); hold != "" {
		w.Header().Set("Shardway-Hold", hold)
	}
	if b.killAt == "before" {
		killSelf()
	}
	switch {
	case r.Header.Get("Upgrade") != "":
		serveUpgrade(w, r)
		return
	case b.eventInterval > 0:
		b.sendEvents(w, r, a.gateOpened(b.endGate))
		return
	case b.feedInterval > 0:
		b.sendFeed(w, r)
		return
	}
	if b.gate != "" && !a.waitAtGate(r, b.gate) || b.registerDelay > 0 && !sleep(r, b.registerDelay) || b.isDone(r) {
		return
	}
	var res result
	if r.Header.Get("App-Register") != "" {
		var ok bool
		if res, ok = a.registers.serve(r, run, string(start)); !ok {
			return
		}
	}
	if a.state != nil && r.Header.Get("App-Register") == "" {
		var err error
		if count, err = a.state.count(run, r.Method == http.MethodPost); err != nil {
			res = failed(http.StatusConflict, err)
		}
	}
	if a.cache != nil && r.Method == http.MethodPost {
		var err error
		if count, err = a.cache.increment(run.Key); err != nil {
			res = failed(http.StatusInternalServerError, err)
		}
	}
	res.count = count
	b.respond(w, r, run, res, func() {
		ended = true
		a.endRun(run)
	})
}

// holds reports whether the shard of a request was acquired.
func (a *app) hasAcquired(r *http.Request) bool {
	shard, epoch := shardAndEpoch(r.Header)
	return a.state.hasAcquired(shard, epoch)
}

// place is where a request belongs; an epoch of 0 says that it does not say.
func shardAndEpoch(h http.Header) (shard uint32, epoch uint64) {
	n, err := strconv.ParseUint(h.Get("Shardway-Shard"), 10, 32)
	epoch, err2 := strconv.ParseUint(h.Get("Shardway-Epoch"), 10, 64)
	if err != nil || err2 != nil {
		epoch = 0 // the checker reports it
	}
	return uint32(n), epoch
}

// prefix keeps the first bytes written to it: enough to see that a value is too
// long.
type prefixBuffer []byte

// Write never fails.
func (p *prefixBuffer) Write(b []byte) (int, error) {
	*p = append(*p, b[:min(len(b), store.MaxValue+1-len(*p))]...)
	return len(b), nil
}

func (a *app) startRun(r *http.Request) (run history.Run, count uint64) {
	h := r.Header
	shard, epoch := shardAndEpoch(h)
	run = history.Run{
		App: a.name, Node: h.Get("Shardway-Node"), Shard: shard, Epoch: epoch,
		Key: h.Get("Shardway-Key"), ID: h.Get("App-Id"), Method: r.Method, Stream: h.Get("Upgrade") != "" || h.Get("App-Events") != "" || h.Get("App-Feed") != "",
		Resumes: h.Get("App-Feed") != "",
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	run.Start = history.Now()
	run.Seq = uint64(len(a.runs))
	a.runs = append(a.runs, run)
	a.requestCounts[run.Key]++
	a.appendRecord(run)
	return run, a.requestCounts[run.Key]
}

func (a *app) endRun(run history.Run) {
	a.mu.Lock()
	defer a.mu.Unlock()
	run.End = history.Now()
	a.runs[run.Seq] = run
	a.appendRecord(run)
}

// write appends one line. A test that loses records must not pass.
func (a *app) appendRecord(run history.Run) {
	b, err := json.Marshal(run)
	if err == nil {
		_, err = a.out.Write(append(b, '\n'))
	}
	if err != nil {
		panic(fmt.Sprintf("app: records cannot be written: %v", err))
	}
}

func (a *app) countRuns(id string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, run := range a.runs {
		if run.ID == id {
			n++
		}
	}
	return n
}

// gate is called with mu held.
func (a *app) gateLocked(name string) *gate {
	g, ok := a.gates[name]
	if !ok {
		g = &gate{open: make(chan struct{})}
		a.gates[name] = g
	}
	return g
}

// wait hangs until the gate opens; false if the client left first.
func (a *app) waitAtGate(r *http.Request, name string) bool {
	a.mu.Lock()
	g := a.gateLocked(name)
	g.waiting++
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		g.waiting--
		a.mu.Unlock()
	}()
	select {
	case <-g.open:
		return true
	case <-r.Context().Done():
		return false
	}
}

// opened returns a channel that is closed when the gate opens; nil without a name.
func (a *app) gateOpened(name string) <-chan struct{} {
	if name == "" {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.gateLocked(name).open
}

func (a *app) openGate(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	g := a.gateLocked(name)
	select {
	case <-g.open:
	default:
		close(g.open)
	}
}
