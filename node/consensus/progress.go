package consensus

import "sync"

// matchIndexTable is the match index of each server, from its responses to this leader. The library has
// it, but does not export it.
type matchIndexTable struct {
	mu    sync.Mutex // protects the following fields
	term  uint64
	match map[string]uint64
}

// record records that a server has the log of the leader of the term up to index.
func (p *matchIndexTable) record(server string, term, index uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if term < p.term {
		return
	}
	if term > p.term || p.match == nil {
		p.term, p.match = term, make(map[string]uint64)
	}
	p.match[server] = max(p.match[server], index)
}

// matchIndex returns the match index of a server in the term, or 0 if it is unknown.
func (p *matchIndexTable) matchIndex(server string, term uint64) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if term != p.term {
		return 0
	}
	return p.match[server]
}
