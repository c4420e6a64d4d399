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
	port *port

	mu     sync.Mutex
	runs   []history.Run
	counts map[string]uint64 // per key
	gates  map[string]*gate
	sick   bool // /health answers 503
}

// gate is a name under which requests hang.
type gate struct {
	open    chan struct{}
	waiting int
}

func newApp(name string, out io.Writer) *app {
	return &app{name: name, out: out, counts: make(map[string]uint64), gates: make(map[string]*gate)}
}

// ServeHTTP tells work from control by the header that only a node sets.
func (a *app) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Shardway-Shard") != "" {
		a.work(w, r)
		return
	}
	if a.state != nil {
		if strings.HasPrefix(r.URL.Path, hookPath) {
			a.state.serveHook(w, r)
			return
		}
		if a.state.control(w, r) {
			return
		}
	}
	q := r.URL.Query()
	switch r.URL.Path {
	case "/sick":
		a.mu.Lock()
		a.sick = q.Get("on") == "true"
		a.mu.Unlock()
		reply(w, a.name)
	case "/health":
		a.mu.Lock()
		sick := a.sick
		a.mu.Unlock()
		if a.instance != "" {
			w.Header().Set("Shardway-App-Instance", a.instance)
		}
		if sick {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		reply(w, a.name)
	case "/forget":
		if a.cache != nil {
			a.cache.forget()
		}
		reply(w, a.name)
	case "/close-port":
		d, err := time.ParseDuration(q.Get("for"))
		if err != nil || a.port == nil {
			http.Error(w, "close-port: for must be a duration", http.StatusBadRequest)
			return
		}
		a.port.closeFor(d, q.Get("all") == "true")
		reply(w, a.name)
	case "/records":
		a.mu.Lock()
		runs := append([]history.Run{}, a.runs...)
		a.mu.Unlock()
		reply(w, runs)
	case "/executions":
		reply(w, a.executions(q.Get("id")))
	case "/release":
		a.release(q.Get("name"))
	case "/hanging":
		a.mu.Lock()
		n := a.gate(q.Get("name")).waiting
		a.mu.Unlock()
		reply(w, n)
	default:
		reply(w, a.name)
	}
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// work is one run: recorded when it starts and again when it ends, which is just
// before the last bytes of its answer are written. Whoever has read those may
// rely on the run's being over.
func (a *app) work(w http.ResponseWriter, r *http.Request) {
	if a.state != nil && !a.holds(r) {
		notAcquired(w)
		return
	}
	run, count := a.begin(r)
	ended := false
	defer func() {
		if !ended {
			run.Cut = true
			a.end(run)
		}
	}()
	// The whole body is read first: only then does the server notice a client
	// that leaves.
	var start prefix
	if _, err := io.Copy(&start, r.Body); err != nil {
		return
	}
	b := readBehaviour(r.Header)
	if hold := r.Header.Get("App-Hold"); hold != "" {
		w.Header().Set("Shardway-Hold", hold)
	}
	if b.die == "before" {
		die()
	}
	switch {
	case r.Header.Get("Upgrade") != "":
		upgrade(w, r)
		return
	case b.events > 0:
		b.stream(w, r, a.opened(b.until))
		return
	case b.feed > 0:
		b.follow(w, r)
		return
	}
	if b.hang != "" && !a.wait(r, b.hang) || b.late > 0 && !pause(r, b.late) || b.over(r) {
		return
	}
	var res result
	if r.Header.Get("App-Register") != "" {
		var ok bool
		if res, ok = a.registers.do(r, run, string(start)); !ok {
			return
		}
	}
	if a.state != nil && r.Header.Get("App-Register") == "" {
		var err error
		if count, err = a.state.do(run, r.Method == http.MethodPost); err != nil {
			res = failed(http.StatusConflict, err)
		}
	}
	if a.cache != nil && r.Method == http.MethodPost {
		var err error
		if count, err = a.cache.raise(run.Key); err != nil {
			res = failed(http.StatusInternalServerError, err)
		}
	}
	res.count = count
	b.answer(w, r, run, res, func() {
		ended = true
		a.end(run)
	})
}

// holds reports whether the shard of a request was acquired.
func (a *app) holds(r *http.Request) bool {
	shard, epoch := place(r.Header)
	return a.state.acquired(shard, epoch)
}

// place is where a request belongs; an epoch of 0 says that it does not say.
func place(h http.Header) (shard uint32, epoch uint64) {
	n, err := strconv.ParseUint(h.Get("Shardway-Shard"), 10, 32)
	epoch, err2 := strconv.ParseUint(h.Get("Shardway-Epoch"), 10, 64)
	if err != nil || err2 != nil {
		epoch = 0 // the checker reports it
	}
	return uint32(n), epoch
}

// prefix keeps the first bytes written to it: enough to see that a value is too
// long.
type prefix []byte

// Write never fails.
func (p *prefix) Write(b []byte) (int, error) {
	*p = append(*p, b[:min(len(b), store.MaxValue+1-len(*p))]...)
	return len(b), nil
}

func (a *app) begin(r *http.Request) (run history.Run, count uint64) {
	h := r.Header
	shard, epoch := place(h)
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
	a.counts[run.Key]++
	a.write(run)
	return run, a.counts[run.Key]
}

func (a *app) end(run history.Run) {
	a.mu.Lock()
	defer a.mu.Unlock()
	run.End = history.Now()
	a.runs[run.Seq] = run
	a.write(run)
}

// write appends one line. A test that loses records must not pass.
func (a *app) write(run history.Run) {
	b, err := json.Marshal(run)
	if err == nil {
		_, err = a.out.Write(append(b, '\n'))
	}
	if err != nil {
		panic(fmt.Sprintf("app: records cannot be written: %v", err))
	}
}

func (a *app) executions(id string) int {
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
func (a *app) gate(name string) *gate {
	g, ok := a.gates[name]
	if !ok {
		g = &gate{open: make(chan struct{})}
		a.gates[name] = g
	}
	return g
}

// wait hangs until the gate opens; false if the client left first.
func (a *app) wait(r *http.Request, name string) bool {
	a.mu.Lock()
	g := a.gate(name)
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
func (a *app) opened(name string) <-chan struct{} {
	if name == "" {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.gate(name).open
}

func (a *app) release(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	g := a.gate(name)
	select {
	case <-g.open:
	default:
		close(g.open)
	}
}
