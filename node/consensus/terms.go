package consensus

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// terms is Raft's stable store, and keeps the term from falling.
//
// The library (v1.7.3) takes heartbeats beside its loop, so that a loop that waits for
// the disk hears of its leader all the same, with code that must only run in the loop.
// A server that stands for election, and writes its new term, falls back to the old one
// when a heartbeat of that comes meanwhile: the handler sees a candidate, writes the old
// term too, and is done last. Then it has voted in a term, and told others so, that it
// knows nothing of: it echoes the old leader, for its lease, and when it is started again
// it is taken for an older image of its disk.
//
// So the handler is given only heartbeats that change no term, and none while a term is
// written; all others go the way of any request, through the loop. See Raft.beside.
type terms struct {
	raft.StableStore
	// changing is held by who writes a term, and shared by who takes a heartbeat. Nobody
	// waits for the disk who shares it.
	changing sync.RWMutex
	written  atomic.Uint64 // and one; zero: none was
	// Since a leader was known last: how long the last write took, of the term or of a vote,
	// in ns, and how often this server stood for election.
	took, stood atomic.Int64
	stands      func() bool // this server stands for election
	paced       func()      // is told after each write; nil: nobody is
}

// SetUint64 writes a number, the term only if it is another, or the first of this life:
// that shows whether the disk can be written. Who takes a heartbeat may set the same one, and
// would wait for itself.
func (s *terms) SetUint64(key []byte, val uint64) error {
	if string(key) != keyCurrentTerm {
		return s.StableStore.SetUint64(key, val)
	}
	if val+1 == s.written.Load() {
		return nil
	}
	defer s.time(time.Now())
	s.changing.Lock()
	defer s.changing.Unlock()
	err := s.StableStore.SetUint64(key, val)
	if err == nil {
		s.written.Store(val + 1)
		if s.stands != nil && s.stands() {
			s.stood.Add(1)
		}
	}
	return err
}

// Set writes for whom this server votes. The term of the vote is written with it.
func (s *terms) Set(key, val []byte) error {
	defer s.time(time.Now())
	return s.StableStore.Set(key, val)
}

func (s *terms) time(began time.Time) {
	s.took.Store(int64(time.Since(began)))
	if s.paced != nil {
		s.paced()
	}
}

// beside has the library take a heartbeat beside its loop, unless it may change the
// term: then it is to go through the loop.
func (r *Raft) beside(t *transport, rpc raft.RPC, take func(raft.RPC)) (taken bool) {
	c := r.cur.Load()
	req, ok := rpc.Command.(*raft.AppendEntriesRequest)
	if !ok || c == nil || c.trans != t || !c.terms.changing.TryRLock() {
		return false
	}
	defer c.terms.changing.RUnlock()
	if req.Term != c.CurrentTerm() || c.State() != raft.Follower {
		return false
	}
	take(rpc)
	return true
}
