package diskhistory

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"

	"shardway/node/disk"
)

// Most is the largest number of disks in a Table. If there are more, the record that has not changed for the
// longest time is deleted.
const Most = 1024

// MostOfOne is the largest number of disks of one node in a Table. Each node states its own disk ID, so
// without this limit, a faulty node could displace the records of all other nodes. If a node has had more
// disks, the oldest of them are no longer in Raft's configuration and cannot vote.
const MostOfOne = 8

// Table contains the records of the disks of other nodes. Its methods may be called from any goroutine.
type Table struct {
	changed chan struct{} // cap 1: notified when a record has changed

	// mu protects the following fields.
	mu    sync.Mutex
	known map[string]entry // by server
	last  uint64           // turn of the newest entry
}

// entry is the record of one disk.
type entry struct {
	disk.DiskRecord
	lastChange uint64 // increases with each change of any record, so it orders the records by their last change
}

// New returns a Table with the stored records, oldest first.
func New(kept []disk.DiskRecord) *Table {
	t := &Table{changed: make(chan struct{}, 1), known: make(map[string]entry, len(kept))}
	for _, k := range kept {
		t.put(k)
	}
	return t
}

// Changed returns a channel that is notified when the records have changed and must be stored.
func (t *Table) Changed() <-chan struct{} { return t.changed }

// All returns all records, for storing them. The record that changed first comes first.
func (t *Table) All() []disk.DiskRecord {
	t.mu.Lock()
	defer t.mu.Unlock()
	entries := slices.SortedFunc(maps.Values(t.known), func(a, b entry) int { return cmp.Compare(a.lastChange, b.lastChange) })
	all := make([]disk.DiskRecord, len(entries))
	for i, e := range entries {
		all[i] = e.DiskRecord
	}
	return all
}

// Of returns the record of a server; zero means that there is none.
func (t *Table) Of(server string) disk.DiskRecord {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known[server].DiskRecord
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
	k := t.known[s.Server].DiskRecord
	if err := Check(k, s); err != nil {
		return err
	}
	was := k
	if k.Nonce != s.Nonce {
		k.Boot, k.Nonce = s.Boot, s.Nonce
	}
	k.Server, k.Boot, k.Term, k.Applied = s.Server, max(k.Boot, s.Boot), max(k.Term, s.Term), max(k.Applied, s.Applied)
	if k != was {
		t.put(k)
		t.notifyChanged()
	}
	return nil
}

// Recall adds stored records that could not be read at the start. The result is the same as if the Table had
// started with them and then received all its statements. A process that was accepted before may now turn
// out to have an older image of its disk. In that case the stored record replaces the present one.
func (t *Table) Recall(kept []disk.DiskRecord) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range kept {
		now, ok := t.known[k.Server]
		if ok && Check(k, Statement{Server: now.Server, Boot: now.Boot, Nonce: now.Nonce, Term: now.Term, Applied: now.Applied, Last: ^uint64(0)}) == nil {
			if k.Nonce != now.Nonce {
				k.Nonce = now.Nonce
			}
			k.Boot, k.Term, k.Applied = max(k.Boot, now.Boot), max(k.Term, now.Term), max(k.Applied, now.Applied)
		}
		t.put(k)
	}
	t.notifyChanged()
}

// Term records the Raft term that a message of Raft contains. It has no effect if there is no record of the
// server.
func (t *Table) Term(server string, term uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.known[server].DiskRecord
	if k.Nonce == 0 || term <= k.Term {
		return
	}
	k.Term = term
	t.put(k)
	t.notifyChanged()
}

// put stores a record and deletes old ones above the limits. mu must be held, unless t was not published
// yet.
func (t *Table) put(k disk.DiskRecord) {
	t.last++
	t.known[k.Server] = entry{DiskRecord: k, lastChange: t.last}
	node := nodeOf(k.Server)
	t.removeOldest(MostOfOne, func(server string) bool { return nodeOf(server) == node })
	t.removeOldest(Most, func(string) bool { return true })
}

// removeOldest deletes one record if there are more than most records for which which returns true: the record
// among them that has not changed for the longest time.
func (t *Table) removeOldest(most int, which func(server string) bool) {
	n, oldest := 0, ""
	for server, e := range t.known {
		if !which(server) {
			continue
		}
		if n++; oldest == "" || e.lastChange < t.known[oldest].lastChange {
			oldest = server
		}
	}
	if n > most {
		delete(t.known, oldest)
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
