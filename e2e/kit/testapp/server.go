//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"shardway/e2e/kit/history"
	"shardway/e2e/kit/store"
)

// app records the requests that it handles. Its methods are safe for concurrent use.
type app struct {
	name         string
	recordWriter io.Writer           // receives one JSON line per recorded start and end
	registers    *registers          // nil without --store
	state        *state              // nil without --state
	cache        *cache              // nil without --cache
	instanceID   string              // identifies this process in health checks; empty without --instance
	listener     *reopenableListener // nil until serve runs

	// mu protects the following fields, and writes to recordWriter.
	mu            sync.Mutex
	runs          []history.Run
	requestCounts map[string]uint64 // by key
	gates         map[string]*gate  // by name
	health        health            // the response to /health
}

// gate is a name for which requests with App-Hang wait.
type gate struct {
	open    chan struct{} // closed by POST /release
	waiting int           // number of requests that wait
}

func newApp(name string, out io.Writer) *app {
	return &app{name: name, recordWriter: out, requestCounts: make(map[string]uint64), gates: make(map[string]*gate), health: health{status: http.StatusOK, text: healthy}}
}

// ServeHTTP handles requests from nodes, hook calls and control requests. Only a node sets the
// header Shardway-Shard.
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
	a.serveControl(w, r)
}

// serveControl handles a control request of the test, and health checks of the node. Any other path is
// a check whether the app responds.
func (a *app) serveControl(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	switch r.URL.Path {
	case "/health":
		a.serveHealth(w, r)
	case "/set-health":
		a.serveSetHealth(w, query)
	case "/forget":
		if a.cache != nil {
			a.cache.dropAll()
		}
		writeJSON(w, a.name)
	case "/close-port":
		a.serveClosePort(w, query)
	case "/records":
		a.mu.Lock()
		runs := append([]history.Run{}, a.runs...)
		a.mu.Unlock()
		writeJSON(w, runs)
	case "/executions":
		writeJSON(w, a.countRuns(query.Get("id")))
	case "/release":
		a.openGate(query.Get("name"))
	case "/hanging":
		a.mu.Lock()
		waiting := a.gateLocked(query.Get("name")).waiting
		a.mu.Unlock()
		writeJSON(w, waiting)
	default:
		writeJSON(w, a.name)
	}
}

// serveClosePort closes the port of the app for the duration "for". With all=true, it also closes the open
// connections.
func (a *app) serveClosePort(w http.ResponseWriter, query url.Values) {
	duration, err := time.ParseDuration(query.Get("for"))
	if err != nil || a.listener == nil {
		http.Error(w, "close-port: for must be a duration", http.StatusBadRequest)
		return
	}
	a.listener.closeFor(duration, query.Get("all") == "true")
	writeJSON(w, a.name)
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}

// serveRequest handles one request from a node. It records the start of the request, and its end
// right before the last bytes of the response are written. A client that has read the complete
// response can therefore rely on the recorded end.
func (a *app) serveRequest(w http.ResponseWriter, r *http.Request) {
	if a.state != nil && !a.hasAcquired(r) {
		notAcquired(w)
		return
	}
	run, requestCount := a.startRun(r)
	recorded := false
	defer func() {
		if !recorded {
			run.Aborted = true
			a.endRun(run)
		}
	}()
	// net/http detects a client that disconnects only after the handler has read the whole body.
	var bodyPrefix prefixBuffer
	if _, err := io.Copy(&bodyPrefix, r.Body); err != nil {
		return
	}
	selected := parseBehaviour(r.Header)
	if hold := r.Header.Get("App-Hold"); hold != "" {
		w.Header().Set("Shardway-Hold", hold)
	}
	if selected.killAt == "before" {
		killSelf()
	}
	if a.serveStream(w, r, selected) || !a.waitBeforeStart(r, selected) {
		return
	}
	res, ok := a.execute(r, run, string(bodyPrefix), requestCount)
	if !ok {
		return
	}
	selected.respond(w, r, run, res, func() {
		recorded = true
		a.endRun(run)
	})
}

// serveStream serves an upgrade or an event stream to its end. It returns false without an effect if the
// request asks for neither.
func (a *app) serveStream(w http.ResponseWriter, r *http.Request, selected behaviour) (served bool) {
	switch {
	case r.Header.Get("Upgrade") != "":
		serveUpgrade(w, r)
	case selected.eventInterval > 0:
		selected.sendEvents(w, r, a.gateOpened(selected.endGate))
	case selected.feedInterval > 0:
		selected.sendFeed(w, r)
	default:
		return false
	}
	return true
}

// waitBeforeStart waits for the gate and the delay that the request selects. It returns false if the
// request has ended, so that the app must not execute it.
func (a *app) waitBeforeStart(r *http.Request, selected behaviour) bool {
	if selected.gate != "" && !a.waitAtGate(r, selected.gate) {
		return false
	}
	if selected.registerDelay > 0 && !sleep(r, selected.registerDelay) {
		return false
	}
	return !selected.hasEnded(r)
}

// execute performs the operation of a request on a register, on the state or on the cache. ok is
// false if the client disconnected before the result was available.
func (a *app) execute(r *http.Request, run history.Run, body string, requestCount uint64) (outcome result, ok bool) {
	usesRegister, isPost := r.Header.Get("App-Register") != "", r.Method == http.MethodPost
	if usesRegister {
		if outcome, ok = a.registers.serve(r, run, body); !ok {
			return result{}, false
		}
	}
	count := requestCount
	if a.state != nil && !usesRegister {
		var err error
		if count, err = a.state.count(run, isPost); err != nil {
			outcome = failureResult(http.StatusConflict, err)
		}
	}
	if a.cache != nil && isPost {
		var err error
		if count, err = a.cache.increment(run.Key); err != nil {
			outcome = failureResult(http.StatusInternalServerError, err)
		}
	}
	outcome.count = count
	return outcome, true
}

// hasAcquired reports whether the app has acquired the shard of a request in the epoch of the
// request.
func (a *app) hasAcquired(r *http.Request) bool {
	shard, epoch := shardAndEpoch(r.Header)
	return a.state.hasAcquired(shard, epoch)
}

// shardAndEpoch returns the shard and the epoch of a request. If one of the headers is invalid, the
// epoch is zero, which history.Check reports as a violation.
func shardAndEpoch(header http.Header) (shard uint32, epoch uint64) {
	shardNumber, shardErr := strconv.ParseUint(header.Get("Shardway-Shard"), 10, 32)
	epoch, epochErr := strconv.ParseUint(header.Get("Shardway-Epoch"), 10, 64)
	if shardErr != nil || epochErr != nil {
		epoch = 0
	}
	return uint32(shardNumber), epoch
}

// prefixBuffer keeps the first store.MaxValue+1 bytes written to it, which is enough to detect a
// value that is too long.
type prefixBuffer []byte

// Write always returns len(data) and a nil error.
func (p *prefixBuffer) Write(data []byte) (int, error) {
	*p = append(*p, data[:min(len(data), store.MaxValue+1-len(*p))]...)
	return len(data), nil
}

// startRun records the start of r. It returns the record and the number of requests for the key,
// including r.
func (a *app) startRun(r *http.Request) (run history.Run, count uint64) {
	header := r.Header
	shard, epoch := shardAndEpoch(header)
	isFeed := header.Get("App-Feed") != ""
	run = history.Run{
		App: a.name, Node: header.Get("Shardway-Node"), Shard: shard, Epoch: epoch,
		Key: header.Get("Shardway-Key"), Service: header.Get("Shardway-Service"), ID: header.Get("App-Id"), Method: r.Method,
		Stream: isFeed || header.Get("Upgrade") != "" || header.Get("App-Events") != "", Resumes: isFeed,
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

// endRun records the end of a run.
func (a *app) endRun(run history.Run) {
	a.mu.Lock()
	defer a.mu.Unlock()
	run.End = history.Now()
	a.runs[run.Seq] = run
	a.appendRecord(run)
}

// appendRecord writes one JSON line to recordWriter. It panics if the write fails, because a test must not
// pass with missing records.
func (a *app) appendRecord(run history.Run) {
	data, err := json.Marshal(run)
	if err == nil {
		_, err = a.recordWriter.Write(append(data, '\n'))
	}
	if err != nil {
		panic(fmt.Sprintf("app: write record: %v", err))
	}
}

// countRuns returns how often the app ran the request with this ID.
func (a *app) countRuns(id string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	count := 0
	for _, run := range a.runs {
		if run.ID == id {
			count++
		}
	}
	return count
}

// gateLocked returns the gate with this name and creates it if necessary. mu must be held.
func (a *app) gateLocked(name string) *gate {
	known, ok := a.gates[name]
	if !ok {
		known = &gate{open: make(chan struct{})}
		a.gates[name] = known
	}
	return known
}

// waitAtGate blocks until the gate opens. It returns false if the client disconnects first.
func (a *app) waitAtGate(r *http.Request, name string) bool {
	a.mu.Lock()
	gate := a.gateLocked(name)
	gate.waiting++
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		gate.waiting--
		a.mu.Unlock()
	}()
	select {
	case <-gate.open:
		return true
	case <-r.Context().Done():
		return false
	}
}

// gateOpened returns a channel that is closed when the gate opens, or nil if name is empty.
func (a *app) gateOpened(name string) <-chan struct{} {
	if name == "" {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.gateLocked(name).open
}

// openGate releases all current and later requests that wait for this gate.
func (a *app) openGate(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	gate := a.gateLocked(name)
	select {
	case <-gate.open:
	default:
		close(gate.open)
	}
}
