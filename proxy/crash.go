package proxy

import (
	"sync"
	"time"

	"shardway/proxy/route"
	"shardway/proxy/shardkey"
	"shardway/shardmap"
)

const (
	// MaxImplicated is the maximum number of keys that are implicated in the crash of a process. If
	// requests for more keys were in progress, it is not possible to find the key that caused the
	// crash.
	MaxImplicated = 8
	// crashReportDelay is how long this node waits for other broken connections to the same
	// process before it reports the crash.
	crashReportDelay = 250 * time.Millisecond
	// maxCrashes is the maximum number of crashed processes that are remembered. crashRetention is
	// how long they are remembered; it is longer than a request is retried.
	maxCrashes     = 256
	crashRetention = time.Minute
)

// Crash describes a crash of a process of another node. It contains the keys of those requests of
// this node's clients that were in progress there, without a response header, when the connections
// broke.
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

// crashRecords collects broken connections by process. It is empty except for a short time after a crash.
type crashRecords struct {
	report func(Crash) // called for each crash; nil means that nothing is reported

	mu struct {
		sync.Mutex
		byProcess map[process]*crashRecord
		order     []*crashRecord // in the order of their time, oldest first
	}
}

// process identifies one process of a node.
type process struct {
	node string
	boot uint64
}

// crashRecord contains the keys whose requests were in progress at a process when its connections
// broke.
type crashRecord struct {
	process
	firstBreak time.Time               // when the first connection to the process broke
	keys       map[Implicated]struct{} // crashRecords.mu protects it; MaxImplicated+1 entries mean too many keys
}

// record records that a connection to the crashed process broke while a request for key was in
// progress. It returns the record of that process.
func (records *crashRecords) record(crashed process, key Implicated) *crashRecord {
	records.mu.Lock()
	defer records.mu.Unlock()
	now := time.Now()
	for len(records.mu.order) > 0 && (len(records.mu.order) >= maxCrashes || now.Sub(records.mu.order[0].firstBreak) > crashRetention) {
		delete(records.mu.byProcess, records.mu.order[0].process)
		records.mu.order = records.mu.order[1:]
	}
	record := records.mu.byProcess[crashed]
	if record == nil {
		record = &crashRecord{process: crashed, firstBreak: now, keys: map[Implicated]struct{}{}}
		if records.mu.byProcess == nil {
			records.mu.byProcess = map[process]*crashRecord{}
		}
		records.mu.byProcess[crashed] = record
		records.mu.order = append(records.mu.order, record)
		if records.report != nil {
			time.AfterFunc(crashReportDelay, func() { records.reportCrash(record) })
		}
	}
	if len(record.keys) <= MaxImplicated {
		record.keys[key] = struct{}{}
	}
	return record
}

// implicates reports whether record has few enough keys for each of them to be implicated.
func (records *crashRecords) implicates(record *crashRecord) bool {
	records.mu.Lock()
	defer records.mu.Unlock()
	return len(record.keys) <= MaxImplicated
}

// reportCrash calls report with the crash, unless record has too many keys.
func (records *crashRecords) reportCrash(record *crashRecord) {
	records.mu.Lock()
	crash := Crash{Node: record.node, Boot: record.boot}
	for implicated := range record.keys {
		crash.Keys = append(crash.Keys, implicated)
	}
	records.mu.Unlock()
	if len(crash.Keys) <= MaxImplicated {
		records.report(crash)
	}
}

// recordCrash records that the connection of an attempt has broken, and returns whether the request
// must not be retried. Otherwise, a request that crashes every process which runs it could crash
// the processes of all nodes. Therefore the request is not retried if its key is implicated in two
// crashes, a previous one and this one. Several broken connections to the same process count as one
// crash. A connection that this node has aborted, for example because the owner was unreachable,
// does not count.
func (retry *retrier) recordCrash(attempt *attempt, cancelCause cause) (poisonous bool) {
	if cancelCause != causeNone || attempt.route.Kind != route.Remote || retry.exchange.Keyless || retry.exchange.responsesBegun != attempt.responsesBefore {
		return false
	}
	key := Implicated{Shard: retry.exchange.shard, Hash: shardkey.Hash(retry.server.options.HashKey(), retry.exchange.Key)}
	record := retry.server.crashes.record(process{attempt.route.Node, attempt.conn.Boot}, key)
	earlier := retry.exchange.lastCrash
	retry.exchange.lastCrash = record
	if earlier == nil || earlier == record {
		return false
	}
	return retry.server.crashes.implicates(earlier)
}
