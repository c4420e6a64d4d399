package poison

import (
	"sync"
	"time"

	"shardway/shardmap"
)

const (
	// MaxImplicated is the maximum number of keys that are implicated in the crash of a process. If
	// requests for more keys were in progress, the culprit cannot be identified.
	MaxImplicated = 8
	// reportDelay is how long this node waits for other broken connections to the same
	// process before it reports the crash.
	reportDelay = 250 * time.Millisecond
	// maxCrashes is the maximum number of crashed processes that are remembered. retention is how
	// long they are remembered, which is longer than a request is retried.
	maxCrashes = 256
	retention  = time.Minute
)

// Crash describes the crash of another node's process. It contains the keys of this node's client
// requests that were in progress there, without a response header, when the connections broke.
type Crash struct {
	Node string
	Boot uint64
	// Keys contains 1 to MaxImplicated keys.
	Keys []Implicated
}

// Implicated is a key that had a request in progress: its shard and its shardkey.Hash.
type Implicated struct {
	Shard shardmap.Shard `json:"shard"`
	Hash  uint64         `json:"hash"`
}

// Recorder collects broken connections by process. It is empty except for a short time after a crash.
type Recorder struct {
	// Report is called for each crash; nil means that nothing is reported.
	Report func(Crash)

	mu struct {
		sync.Mutex
		byProcess map[Process]*Record
		order     []*Record // oldest first
	}
}

// Process identifies one process of a node.
type Process struct {
	Node string
	Boot uint64
}

// Record contains the keys whose requests were in progress at a process when its connections
// broke.
type Record struct {
	process    Process
	firstBreak time.Time               // when the first connection to the process broke
	keys       map[Implicated]struct{} // Recorder.mu protects it; MaxImplicated+1 entries mean too many keys
}

// Record records that a connection to the crashed process broke while a request for key was in
// progress. It returns the record of that process.
func (r *Recorder) Record(crashed Process, key Implicated) *Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.forgetOldLocked(now)
	record := r.mu.byProcess[crashed]
	if record == nil {
		record = r.addLocked(crashed, now)
	}
	if len(record.keys) <= MaxImplicated {
		record.keys[key] = struct{}{}
	}
	return record
}

// forgetOldLocked removes records that are older than retention, and makes room for another record.
func (r *Recorder) forgetOldLocked(now time.Time) {
	for len(r.mu.order) > 0 && (len(r.mu.order) >= maxCrashes || now.Sub(r.mu.order[0].firstBreak) > retention) {
		delete(r.mu.byProcess, r.mu.order[0].process)
		r.mu.order = r.mu.order[1:]
	}
}

// addLocked adds a record for a process, and reports the crash after reportDelay.
func (r *Recorder) addLocked(crashed Process, now time.Time) *Record {
	record := &Record{process: crashed, firstBreak: now, keys: map[Implicated]struct{}{}}
	if r.mu.byProcess == nil {
		r.mu.byProcess = map[Process]*Record{}
	}
	r.mu.byProcess[crashed] = record
	r.mu.order = append(r.mu.order, record)
	if r.Report != nil {
		time.AfterFunc(reportDelay, func() { r.report(record) })
	}
	return record
}

// Implicates reports whether record has few enough keys to implicate each of them.
func (r *Recorder) Implicates(record *Record) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(record.keys) <= MaxImplicated
}

// report calls Report with the crash, unless record has too many keys.
func (r *Recorder) report(record *Record) {
	r.mu.Lock()
	crash := Crash{Node: record.process.Node, Boot: record.process.Boot}
	for implicated := range record.keys {
		crash.Keys = append(crash.Keys, implicated)
	}
	r.mu.Unlock()
	if len(crash.Keys) <= MaxImplicated {
		r.Report(crash)
	}
}
