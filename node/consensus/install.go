package consensus

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// When a follower installs a snapshot, the library keeps what is in its log. That
// is wrong if the log contradicts the snapshot, as that of a leader does which was
// cut off with entries of its own: the follower then refuses the leader's next
// entry, gets the snapshot again, and so on for ever without a pause
// (hashicorp/raft issue 697); and if it leads later, it may hand on entries that
// were never committed. The Raft paper discards the log (figure 13, rule 7).
//
// So do we. A log that ends before the snapshot is deleted beneath the library,
// which does not look at it any more. One that goes on and contradicts it is in the
// library's memory too: then its Raft is ended, and begun again after repair. Until
// then it would judge votes by that log, so it takes no part in elections.

// installing lets Raft install a snapshot and sees to the log before the leader
// hears of it.
func (r *Raft) installing(c *core, rpc raft.RPC, req *raft.InstallSnapshotRequest) raft.RPC {
	answer := rpc.RespChan
	done := make(chan raft.RPCResponse, 1)
	rpc.RespChan = done
	c.stale.Add(1)
	go func() {
		select {
		case resp := <-done:
			again := false
			if ok, is := resp.Response.(*raft.InstallSnapshotResponse); is && ok.Success {
				again = r.installed(c, req.LastLogIndex, req.LastLogTerm)
			}
			if !again {
				c.stale.Add(-1)
			}
			answer <- resp
			if again {
				r.again(c)
			}
		case <-c.trans.closed:
		}
	}()
	return rpc
}

// installed sees to the log after a snapshot, and reports whether Raft must begin
// again.
func (r *Raft) installed(c *core, index, term uint64) (again bool) {
	logs := r.o.Stores.Logs
	last := number(c.Stats(), "last_log_index")
	if last == 0 {
		return false
	}
	if last < index {
		first, err := logs.FirstIndex()
		if err == nil && first > 0 && first <= last {
			err = logs.DeleteRange(first, last)
		}
		if err != nil {
			r.log.Warn().Err(err).Msg("log before snapshot not deleted")
		}
		return false
	}
	var e raft.Log
	return logs.GetLog(index, &e) == nil && e.Term != term
}

// matching mends how the library compares the entry before new ones. Where that is
// the last one of its snapshot and has gone from the log, which goes on behind it,
// the library looks in the log only, and refuses. What the snapshot holds is
// committed, so it matches: the request goes on without the comparison, and without
// the word that more than it brings is committed, which the comparison would back.
func (r *Raft) matching(c *core, req *raft.AppendEntriesRequest) {
	if req.PrevLogEntry == 0 {
		return
	}
	var e raft.Log
	if err := r.o.Stores.Logs.GetLog(req.PrevLogEntry, &e); !errors.Is(err, raft.ErrLogNotFound) {
		return
	}
	stats := c.Stats()
	if number(stats, "last_snapshot_index") != req.PrevLogEntry || number(stats, "last_snapshot_term") != req.PrevLogTerm ||
		number(stats, "last_log_index") <= req.PrevLogEntry {
		return
	}
	req.LeaderCommitIndex = min(req.LeaderCommitIndex, req.PrevLogEntry+uint64(len(req.Entries)))
	req.PrevLogEntry, req.PrevLogTerm = 0, 0
}

// again ends the life c and begins another.
func (r *Raft) again(c *core) {
	select {
	case r.life <- struct{}{}:
		defer func() { <-r.life }()
	case <-r.stopped:
		return
	}
	if r.cur.Load() != c || r.closing() {
		return
	}
	r.log.Info().Msg("log dropped, contradicts leader's snapshot")
	if !r.end(c, r.stopped) || r.closing() {
		return
	}
	if err := r.begin(); err != nil {
		r.fail(err)
	}
}

// closing reports that no life may begin any more.
func (r *Raft) closing() bool {
	select {
	case <-r.stopped:
		return true
	case <-r.failed:
		return true
	default:
		return false
	}
}

// repair deletes what the newest snapshot makes wrong or useless in the log. It
// runs before the library reads either.
func (r *Raft) repair() error {
	s := r.o.Stores
	snaps, err := s.Snapshots.List()
	if err != nil || len(snaps) == 0 {
		return wrap("list snapshots", err)
	}
	first, err := s.Logs.FirstIndex()
	if err != nil {
		return wrap("read log", err)
	}
	last, err := s.Logs.LastIndex()
	if err != nil || last == 0 {
		return wrap("read log", err)
	}
	until, err := r.useless(first, last, snaps[0].Index, snaps[0].Term)
	if err != nil || until < first {
		return err
	}
	r.log.Info().Uint64("from", first).Uint64("index", until).Msg("log entries covered by snapshot deleted")
	return wrap("delete log", s.Logs.DeleteRange(first, until))
}

// useless returns up to where the log from first to last must go, given the newest
// snapshot; below first: nothing must.
func (r *Raft) useless(first, last, index, term uint64) (uint64, error) {
	if last < index {
		return last, nil
	}
	var e raft.Log
	switch err := r.o.Stores.Logs.GetLog(index, &e); {
	case err == nil && e.Term == term:
		return first - 1, nil
	case err == nil:
		return last, nil
	case !errors.Is(err, raft.ErrLogNotFound):
		return 0, wrap("read log", err)
	case last == index:
		return last, nil
	}
	// The entry itself is gone. The next one tells whether the log goes on from the
	// snapshot: terms never fall, and a contradicting log was written before.
	switch err := r.o.Stores.Logs.GetLog(index+1, &e); {
	case errors.Is(err, raft.ErrLogNotFound):
		return 0, fmt.Errorf("consensus: raft log ends at %d and lacks entry %d after the snapshot: restore the data directory, or start with an empty one", last, index+1)
	case err != nil:
		return 0, wrap("read log", err)
	case e.Term < term:
		return last, nil
	}
	return index, nil
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("consensus: %s: %w", what, err)
}
