package consensus

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// termStore is the stable store of the Raft library, and prevents the term from decreasing.
//
// The Raft library (v1.7.3) handles heartbeats outside its main loop, so that a loop that waits for the
// disk still detects its leader. But it uses code that must only run in the loop. When a server
// becomes candidate and writes its new term, and a heartbeat of the old term arrives, the term can
// decrease again: the handler sees a candidate and writes the old term, and its write completes
// last. The server has then voted in a term that is not on its disk. It echoes the old leader,
// which extends the lease of that leader, and after a restart it is mistaken for an older copy of
// its disk.
//
// As a result, the handler receives only heartbeats that do not change the term, and none while a
// term is being written. All others pass through the main loop like any request. See
// instance.deliverHeartbeat.
type termStore struct {
	raft.StableStore
	// termMu is locked while a term is written, and read-locked while a heartbeat is handled. No
	// holder of a read lock waits for the disk.
	termMu      sync.RWMutex
	writtenTerm atomic.Uint64 // last written term plus 1; zero means none
	// lastWriteTime is the duration of the last write of a term or a vote, in ns. electionCount is the number of
	// elections of this server. Both count since this server last had a leader.
	lastWriteTime, electionCount atomic.Int64
	isCandidate                  func() bool // reports whether this server is a candidate
	onWrite                      func()      // called after each write; nil means no call
}

// SetUint64 writes a number. It writes a term only if it differs from the last written one, or if
// it is the first write of this instance, which shows whether the disk is writable. A heartbeat
// handler may set the same term again; a write would deadlock with itself.
func (s *termStore) SetUint64(key []byte, val uint64) error {
	if string(key) != keyCurrentTerm {
		return s.StableStore.SetUint64(key, val)
	}
	if val+1 == s.writtenTerm.Load() {
		return nil
	}
	defer s.recordWrite(time.Now())
	s.termMu.Lock()
	defer s.termMu.Unlock()
	err := s.StableStore.SetUint64(key, val)
	if err == nil {
		s.writtenTerm.Store(val + 1)
		if s.isCandidate != nil && s.isCandidate() {
			s.electionCount.Add(1)
		}
	}
	return err
}

// Set writes the vote of this server, together with its term.
func (s *termStore) Set(key, val []byte) error {
	defer s.recordWrite(time.Now())
	return s.StableStore.Set(key, val)
}

// recordWrite records the duration of a write.
func (s *termStore) recordWrite(start time.Time) {
	s.lastWriteTime.Store(int64(time.Since(start)))
	if s.onWrite != nil {
		s.onWrite()
	}
}

// deliverHeartbeat passes a heartbeat to the handler of the Raft library, outside its main loop. It
// returns false if the heartbeat may change the term; it must then pass through the loop.
func (inst *instance) deliverHeartbeat(rpc raft.RPC, libraryHandler func(raft.RPC)) (isDelivered bool) {
	req, ok := rpc.Command.(*raft.AppendEntriesRequest)
	if !ok || !inst.isCurrent() || !inst.termStore.termMu.TryRLock() {
		return false
	}
	defer inst.termStore.termMu.RUnlock()
	if req.Term != inst.CurrentTerm() || inst.State() != raft.Follower {
		return false
	}
	libraryHandler(rpc)
	return true
}
