package diskhistory

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"

	"shardway/node/disk"
)

// Most is the maximum number of disks in a Table. If there are more, the record that has not changed for the
// longest time is deleted.
const Most = 1024

// MostOfOne is the maximum number of disks of one node in a Table. Each node states its own disk ID, so without
// this limit, a faulty node could displace the records of all other nodes. If a node has had more disks, the oldest
// of them are no longer in Raft's configuration and cannot vote.
const MostOfOne = 8

// Table contains the records of the disks of other nodes. Its methods may be called from any goroutine.
type Table struct {
	changed chan struct{} // cap 1: notified when a record has changed

	// mu protects the following fields.
	mu          sync.Mutex
	entries     map[string]entry // by server
	changeCount uint64           // number of changes of all records
}

// entry is the record of one disk.
type entry struct {
	disk.DiskRecord
	lastChange uint64 // Table.changeCount at the last change, which orders the records by their last change
}

// New returns a Table with the stored records, oldest first.
func New(stored []disk.DiskRecord) *Table {
	t := &Table{changed: make(chan struct{}, 1), entries: make(map[string]entry, len(stored))}
	for _, record := range stored {
		t.putLocked(record) // no other goroutine has t yet
	}
	return t
}

// Changed returns a channel that is notified when the records have changed and must be stored.
func (t *Table) Changed() <-chan struct{} { return t.changed }

// All returns all records, for storing them. The record that changed first comes first.
func (t *Table) All() []disk.DiskRecord {
	t.mu.Lock()
	defer t.mu.Unlock()
	entries := slices.SortedFunc(maps.Values(t.entries), func(a, b entry) int { return cmp.Compare(a.lastChange, b.lastChange) })
	all := make([]disk.DiskRecord, len(entries))
	for i, e := range entries {
		all[i] = e.DiskRecord
	}
	return all
}

// Of returns the record of a server, or the zero value if there is none.
func (t *Table) Of(server string) disk.DiskRecord {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.entries[server].DiskRecord
}

// Judge returns a *RollbackError if s comes from an older image or a copy of its disk, according to the
// records.
func (t *Table) Judge(s Statement) error { return Check(t.Of(s.Server), s) }

// Knows reports whether s comes from the process in the record of its disk.
func (t *Table) Knows(s Statement) bool { return t.Of(s.Server).Nonce == s.Nonce }

// Learn records the statement s. It returns the error of Judge if s contradicts the record, which may have
// changed since the caller has called Judge.
func (t *Table) Learn(s Statement) error {
	if s.Nonce == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	previous := t.entries[s.Server].DiskRecord
	if err := Check(previous, s); err != nil {
		return err
	}
	record := previous
	if isNewProcess := previous.Nonce != s.Nonce; isNewProcess {
		record.Boot, record.Nonce = s.Boot, s.Nonce
	}
	record.Server = s.Server
	record.Boot = max(record.Boot, s.Boot)
	record.Term = max(record.Term, s.Term)
	record.Applied = max(record.Applied, s.Applied)
	if record != previous {
		t.putLocked(record)
		t.notifyChanged()
	}
	return nil
}

// Recall adds stored records that could not be read at the start. The result is the same as if the Table had
// started with them and then received all its statements. A process that was accepted before may now turn
// out to have an older image of its disk. In that case the stored record replaces the current one.
func (t *Table) Recall(stored []disk.DiskRecord) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, record := range stored {
		if present, ok := t.entries[record.Server]; ok {
			record = merge(record, present.DiskRecord)
		}
		t.putLocked(record)
	}
	t.notifyChanged()
}

// merge returns the record of a disk that has the stored record and then made the statements in the current one. If
// they contradict the stored record, the result is the stored record.
func merge(stored, current disk.DiskRecord) disk.DiskRecord {
	statement := Statement{Server: current.Server, Boot: current.Boot, Nonce: current.Nonce, Term: current.Term, Applied: current.Applied, Last: ^uint64(0)}
	if Check(stored, statement) != nil {
		return stored
	}
	merged := stored
	merged.Nonce = current.Nonce
	merged.Boot = max(stored.Boot, current.Boot)
	merged.Term = max(stored.Term, current.Term)
	merged.Applied = max(stored.Applied, current.Applied)
	return merged
}

// Term records the Raft term that a message of Raft contains. It has no effect if there is no record of the
// server.
func (t *Table) Term(server string, term uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	record := t.entries[server].DiskRecord
	hasRecord := record.Nonce != 0
	if !hasRecord || term <= record.Term {
		return
	}
	record.Term = term
	t.putLocked(record)
	t.notifyChanged()
}

// putLocked stores a record and deletes old ones above the limits. mu must be held.
func (t *Table) putLocked(record disk.DiskRecord) {
	t.changeCount++
	t.entries[record.Server] = entry{DiskRecord: record, lastChange: t.changeCount}
	node := nodeOf(record.Server)
	t.removeOldestLocked(MostOfOne, func(server string) bool { return nodeOf(server) == node })
	t.removeOldestLocked(Most, func(string) bool { return true })
}

// removeOldestLocked deletes one record if more than limit records match: the one among them that has not changed
// for the longest time. mu must be held.
func (t *Table) removeOldestLocked(limit int, match func(server string) bool) {
	count, oldest := 0, ""
	for server, e := range t.entries {
		if !match(server) {
			continue
		}
		count++
		if oldest == "" || e.lastChange < t.entries[oldest].lastChange {
			oldest = server
		}
	}
	if count > limit {
		delete(t.entries, oldest)
	}
}

// nodeOf returns the node of a server, which has the form "node/disk".
func nodeOf(server string) string {
	node, _, _ := strings.Cut(server, "/")
	return node
}

// notifyChanged notifies changed. It does not block.
func (t *Table) notifyChanged() {
	select {
	case t.changed <- struct{}{}:
	default:
	}
}
