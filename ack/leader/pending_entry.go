package leader

import (
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// entryKind is the kind of a submitted entry.
type entryKind uint8

// The kinds of submitted entries.
const (
	noEntry       entryKind = iota // no entry is pending
	configEntry                    // a policy change, a restart or reports of apps
	proposalEntry                  // the proposal of a map
	commitEntry                    // the commit of the open proposal
)

// pendingEntry is the entry that the leader has submitted, until it is known whether the log
// contains it. There is at most one, because the next entry depends on it (rule 1).
type pendingEntry struct {
	kind        entryKind
	submittedAt time.Duration
	// commitEpoch is the epoch of the map that a submitted commit names. Zero means no commit.
	commitEpoch shardmap.Epoch
}

// exists reports whether an entry is pending.
func (pe *pendingEntry) exists() bool { return pe.kind != noEntry }

// submit records the submission of an entry that is no commit.
func (pe *pendingEntry) submit(now time.Duration, kind entryKind) {
	*pe = pendingEntry{kind: kind, submittedAt: now}
}

// submitCommit records the submission of the commit of a map.
func (pe *pendingEntry) submitCommit(now time.Duration, epoch shardmap.Epoch) {
	*pe = pendingEntry{kind: commitEntry, submittedAt: now, commitEpoch: epoch}
}

// clear records that the outcome of the entry is known.
func (pe *pendingEntry) clear() { pe.kind, pe.commitEpoch = noEntry, 0 }

// applyConfig ends the wait for an entry that is neither a proposal nor a commit.
func (pe *pendingEntry) applyConfig() {
	if pe.kind == configEntry {
		pe.clear()
	}
}

// applyMap ends the wait if the newer state of the log contains a new proposal or the awaited
// commit. A submitted commit blocks leases for the old map until its outcome is known.
func (pe *pendingEntry) applyMap(old, state *ack.State) {
	if pe.kind == commitEntry {
		if state.Committed().Epoch() >= pe.commitEpoch {
			pe.clear()
		}
		return
	}
	if state.Proposed().Epoch() != old.Proposed().Epoch() {
		pe.clear()
	}
}
