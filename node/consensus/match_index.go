package consensus

import "sync"

// matchIndexTable is the match index of each server, from its responses to this leader. The Raft library has
// it, but does not export it.
type matchIndexTable struct {
	mu       sync.Mutex        // protects the following fields
	term     uint64            // newest term of a response
	byServer map[string]uint64 // match indexes in this term, by server ID
}

// record records that a server has the log of the leader of the term up to index.
func (t *matchIndexTable) record(server string, term, index uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if term < t.term {
		return
	}
	if term > t.term || t.byServer == nil {
		t.term, t.byServer = term, make(map[string]uint64)
	}
	t.byServer[server] = max(t.byServer[server], index)
}

// matchIndex returns the match index of a server in the term, or 0 if it is unknown.
func (t *matchIndexTable) matchIndex(server string, term uint64) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if term != t.term {
		return 0
	}
	return t.byServer[server]
}
