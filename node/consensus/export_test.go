package consensus

import (
	"bytes"
	"io"
	"time"

	"github.com/hashicorp/raft"
)

// HoldLife keeps the library's instance from being restarted until release is called.
func (r *Raft) HoldLife() (release func()) {
	r.instanceLock <- struct{}{}
	return func() { <-r.instanceLock }
}

// LastLog returns the term and index of the last entry in the log, ignoring snapshots.
func (r *Raft) LastLog() (term, index uint64) {
	s := r.library().Stats()
	return statUint(s, "last_log_term"), statUint(s, "last_log_index")
}

// Ask passes a request to the server as if another server had sent it, and returns the response.
func (r *Raft) Ask(from string, command func(raft.RPCHeader) any) (any, error) {
	return r.request(from, nil, command)
}

// Install sends the server a snapshot of state from the leader of a term. The last entry of the snapshot has the given index and the term
// of.
func (r *Raft) Install(from string, term, index, of uint64, state []byte) error {
	data := append(encodeHeader(index, state), state...)
	conf := raft.Configuration{}
	for _, s := range r.Voters() {
		conf.Servers = append(conf.Servers, raft.Server{ID: raft.ServerID(s), Address: raft.ServerAddress(s)})
	}
	_, err := r.request(from, bytes.NewReader(data), func(h raft.RPCHeader) any {
		return &raft.InstallSnapshotRequest{
			RPCHeader: h, SnapshotVersion: 1, Term: term, LastLogIndex: index, LastLogTerm: of,
			Configuration: raft.EncodeConfiguration(conf), ConfigurationIndex: 1, Size: int64(len(data)),
		}
	})
	return err
}

func (r *Raft) request(from string, data io.Reader, command func(raft.RPCHeader) any) (any, error) {
	c := r.current.Load()
	h := c.header()
	h.ID, h.Addr = []byte(from), []byte(from)
	answer := make(chan raft.RPCResponse, 1)
	rpc, taken := c.intercept(raft.RPC{Command: command(h), Reader: data, RespChan: answer})
	if !taken {
		c.transport.inbox <- rpc
	}
	resp := <-answer
	return resp.Response, resp.Error
}

// Indexes returns the last index in the log and the last committed index.
func (r *Raft) Indexes() (last, committed uint64) {
	return r.library().LastIndex(), r.library().CommitIndex()
}

// CaughtUp reports, at the leader, whether a server has reported all committed entries.
func (r *Raft) CaughtUp(server string) bool {
	return r.matchIndexes.matchIndex(server, r.Term()) >= r.library().CommitIndex()
}

// Timeouts returns how long the server waits for heartbeats of a leader, and for votes.
func (r *Raft) Timeouts() (heartbeat, election time.Duration) {
	c := r.library().ReloadableConfig()
	return c.HeartbeatTimeout, c.ElectionTimeout
}

// Patience returns how long the server waits for votes if its last write took the time took, and stood candidacies have been counted since
// it last knew a leader.
func (r *Raft) Patience(took time.Duration, stood int64) time.Duration {
	inst := r.current.Load()
	inst.termStore.lastWriteTime.Store(int64(took))
	inst.termStore.electionCount.Store(stood)
	inst.updateTimeouts()
	_, election := r.Timeouts()
	return election
}

// AskVote requests the vote of a server in a term, as the library does.
func (r *Raft) AskVote(voter string, term uint64) (granted bool, err error) {
	last, index := r.LastLog()
	inst := r.current.Load()
	req := raft.RequestVoteRequest{RPCHeader: inst.header(), Term: term, LastLogIndex: index, LastLogTerm: last, LeadershipTransfer: true}
	var resp raft.RequestVoteResponse
	err = inst.transport.RequestVote(raft.ServerID(voter), raft.ServerAddress(voter), &req, &resp)
	return resp.Granted, err
}

// HandleHeartbeat passes a heartbeat of the term to the server outside its main loop. here means that it arrived at the current instance;
// otherwise it arrived at an earlier one. taken reports whether the server handled it.
func (r *Raft) HandleHeartbeat(term uint64, here bool, take func()) (taken bool) {
	inst := r.current.Load()
	if !here {
		earlier := &instance{Raft: inst.Raft, termStore: inst.termStore}
		earlier.isCurrent = func() bool { return r.current.Load() == earlier }
		inst = earlier
	}
	return inst.deliverHeartbeat(raft.RPC{Command: &raft.AppendEntriesRequest{Term: term}}, func(raft.RPC) { take() })
}

// LibraryHeartbeat passes a heartbeat of a leader to the handler of the library, which runs outside its main loop.
func (r *Raft) LibraryHeartbeat(from string, term uint64) {
	c := r.current.Load()
	h := c.header()
	h.ID, h.Addr = []byte(from), []byte(from)
	c.transport.heartbeatHandler.handle(raft.RPC{Command: &raft.AppendEntriesRequest{RPCHeader: h, Term: term}, RespChan: make(chan raft.RPCResponse, 1)})
}

// TermHeld reports whether the lock for writing a term is held.
func (r *Raft) TermHeld() bool {
	s := r.current.Load().termStore
	if !s.termMu.TryLock() {
		return true
	}
	s.termMu.Unlock()
	return false
}

// WriteTerm writes a term as the library does.
func (r *Raft) WriteTerm(term uint64) error {
	return r.current.Load().termStore.SetUint64([]byte(keyCurrentTerm), term)
}
