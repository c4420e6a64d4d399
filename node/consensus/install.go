package consensus

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"shardway/node/disk"
)

// When a follower installs a snapshot, the Raft library keeps the log. This is wrong if the log contradicts the
// snapshot, like the log of a partitioned leader with uncommitted entries. The follower then rejects the leader's
// next entry, receives the snapshot again, and so on in a tight loop (hashicorp/raft issue 697). If it later
// becomes leader, it may replicate entries that were never committed. The Raft paper discards such a log (figure
// 13, rule 7).
//
// This package does the same. A log that ends before the snapshot is deleted from the store, because the Raft
// library no longer reads it. A contradicting log that continues past the snapshot is also in the library's memory,
// so the instance is stopped and, after a repair, replaced. Until then the server takes no part in elections,
// because it would vote according to the wrong log.

// reconcileAfterInstall returns the request to install a snapshot for the Raft library. When the Raft library has
// installed the snapshot, the log is reconciled before the leader receives the response.
func (inst *instance) reconcileAfterInstall(rpc raft.RPC, req *raft.InstallSnapshotRequest) raft.RPC {
	leaderResponse := rpc.RespChan
	libraryResponse := make(chan raft.RPCResponse, 1)
	rpc.RespChan = libraryResponse
	inst.pendingSnapshots.Add(1)
	startedAt := time.Now()
	go func() {
		select {
		case resp := <-libraryResponse:
			mustReplace := false
			if installed, ok := resp.Response.(*raft.InstallSnapshotResponse); ok && installed.Success {
				inst.options.OnSnapshot(SnapshotReceived, req.Size, time.Since(startedAt))
				mustReplace = inst.reconcileLog(req.LastLogIndex, req.LastLogTerm)
			}
			if !mustReplace {
				inst.pendingSnapshots.Add(-1)
			}
			leaderResponse <- resp
			if mustReplace {
				inst.replace()
			}
		case <-inst.transport.closed:
		}
	}()
	return rpc
}

// reconcileLog reconciles the log with an installed snapshot, whose last entry has this index and term. It
// reports whether the instance must be replaced.
func (inst *instance) reconcileLog(index, term uint64) (mustReplace bool) {
	logs := inst.options.Stores.Logs
	last := statUint(inst.Stats(), "last_log_index")
	if last == 0 {
		return false
	}
	if last < index {
		first, err := logs.FirstIndex()
		if err == nil && first > 0 && first <= last {
			err = logs.DeleteRange(first, last)
		}
		if err != nil {
			inst.options.Log.Warn().Err(err).Msg("log before snapshot not deleted")
		}
		return false
	}
	var entry raft.Log
	return logs.GetLog(index, &entry) == nil && entry.Term != term
}

// correctPrevEntry fixes how the Raft library compares the previous entry of an AppendEntries request. If that is
// the last entry of the snapshot, has been deleted from the log, and the log continues after it, the library looks
// only in the log and rejects the request. The entries of a snapshot are committed, so the entry does match. The
// request is passed on without the comparison, and with a commit index limited to its own entries, because only the
// comparison would justify a higher one.
func (inst *instance) correctPrevEntry(req *raft.AppendEntriesRequest) {
	if req.PrevLogEntry == 0 {
		return
	}
	var entry raft.Log
	if err := inst.options.Stores.Logs.GetLog(req.PrevLogEntry, &entry); !errors.Is(err, raft.ErrLogNotFound) {
		return
	}
	stats := inst.Stats()
	isLastOfSnapshot := statUint(stats, "last_snapshot_index") == req.PrevLogEntry && statUint(stats, "last_snapshot_term") == req.PrevLogTerm
	logContinues := statUint(stats, "last_log_index") > req.PrevLogEntry
	if !isLastOfSnapshot || !logContinues {
		return
	}
	req.LeaderCommitIndex = min(req.LeaderCommitIndex, req.PrevLogEntry+uint64(len(req.Entries)))
	req.PrevLogEntry, req.PrevLogTerm = 0, 0
}

// repairLog deletes log entries that contradict or are replaced by the newest snapshot. It runs before the Raft
// library reads the stores.
func repairLog(stores *disk.Stores, log zerolog.Logger) error {
	snapshots, err := stores.Snapshots.List()
	if err != nil || len(snapshots) == 0 {
		return wrapError("list snapshots", err)
	}
	first, err := stores.Logs.FirstIndex()
	if err != nil {
		return wrapError("read log", err)
	}
	last, err := stores.Logs.LastIndex()
	if err != nil || last == 0 {
		return wrapError("read log", err)
	}
	lastObsolete, err := lastObsoleteIndex(stores.Logs, first, last, snapshots[0].Index, snapshots[0].Term)
	if err != nil || lastObsolete < first {
		return err
	}
	log.Info().Uint64("from", first).Uint64("index", lastObsolete).Msg("log entries covered by snapshot deleted")
	return wrapError("delete log", stores.Logs.DeleteRange(first, lastObsolete))
}

// lastObsoleteIndex returns the index up to which the log (from first to last) must be deleted, given
// the newest snapshot. A result below first means that nothing must be deleted.
func lastObsoleteIndex(logs raft.LogStore, first, last, snapshotIndex, snapshotTerm uint64) (uint64, error) {
	if last < snapshotIndex {
		return last, nil
	}
	var entry raft.Log
	switch err := logs.GetLog(snapshotIndex, &entry); {
	case err == nil && entry.Term == snapshotTerm:
		return first - 1, nil
	case err == nil:
		return last, nil
	case !errors.Is(err, raft.ErrLogNotFound):
		return 0, wrapError("read log", err)
	case last == snapshotIndex:
		return last, nil
	}
	// The entry itself was deleted. The next entry shows whether the log continues the snapshot: terms
	// never decrease, and a contradicting log was written earlier.
	switch err := logs.GetLog(snapshotIndex+1, &entry); {
	case errors.Is(err, raft.ErrLogNotFound):
		return 0, fmt.Errorf("consensus: raft log ends at %d and lacks entry %d after the snapshot: restore the data directory, or start with an empty one", last, snapshotIndex+1)
	case err != nil:
		return 0, wrapError("read log", err)
	case entry.Term < snapshotTerm:
		return last, nil
	}
	return snapshotIndex, nil
}

// wrapError adds the failed operation to an error. It returns nil for a nil error.
func wrapError(operation string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("consensus: %s: %w", operation, err)
}
