package consensus

import "sync"

// progress is how far each server's log reaches, as far as it told this leader.
// The library knows it and does not say.
type progress struct {
	mu    sync.Mutex
	term  uint64
	match map[string]uint64
}

// reached notes that a server has the leader's log of the term up to index.
func (p *progress) reached(server string, term, index uint64) {
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

// of returns how far a server's log reaches in the term, 0 if that is unknown.
func (p *progress) of(server string, term uint64) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if term != p.term {
		return 0
	}
	return p.match[server]
}
