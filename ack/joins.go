package ack

import (
	"shardway/ack/join"
)

// JoinsFormatVersion is the first format version in which the log can contain requests to join the cluster.
const JoinsFormatVersion FormatVersion = 4

// HasJoins reports whether data of this format version can contain requests to join.
func (v FormatVersion) HasJoins() bool { return v >= JoinsFormatVersion }

// maxJoins is the maximum size of encoded join records, in bytes.
const maxJoins = 4 << 20

// JoinEntry is the log entry that changes the records of join requests.
type JoinEntry struct {
	// Term is the Raft term of the leader that submitted it (see ProposalEntry). An earlier leader may have measured
	// a timeout that a later leader starts again.
	Term    uint64
	Changes []join.Change // at most join.MaxChanges
}

// Joins returns the records of join requests.
func (s *State) Joins() join.Records { return s.joins }

// EncodeJoin encodes the entry in the given format version, which must have join requests.
func EncodeJoin(version FormatVersion, entry JoinEntry) []byte {
	w := newWriter(version)
	w.byte(kindJoin)
	w.uint(entry.Term)
	w.buf = join.AppendChanges(w.buf, entry.Changes)
	return w.buf
}

// readJoinEntry decodes the output of EncodeJoin after its kind.
func (r *reader) readJoinEntry() JoinEntry {
	entry := JoinEntry{Term: r.uint(0, maxUint)}
	if r.err == nil && !r.version.HasJoins() {
		r.fail("join requests in an earlier format version")
	}
	changes, err := join.DecodeChanges(r.read(len(r.buf)))
	if err != nil {
		r.fail(err.Error())
	}
	entry.Changes = changes
	return entry
}

// applyJoin applies changes of join requests, if the leader of the current term has submitted them.
func (s *State) applyJoin(term uint64, entry JoinEntry) (*State, Outcome, error) {
	joins, hasChanged := s.joins.Apply(s.index, entry.Changes)
	if !s.Bootstrapped() || term != entry.Term || !hasChanged {
		return s.ignore()
	}
	s.joins = joins
	return s, OutcomeJoinChanged, nil
}

// writeJoins writes the records with their length; zero means none.
func (w *writer) writeJoins(joins join.Records) {
	if !w.version().HasJoins() {
		return
	}
	if joins.IsEmpty() {
		w.uint(0)
		return
	}
	w.bytes(joins.Append(nil))
}

// readJoins decodes the output of writer.writeJoins.
func (r *reader) readJoins() join.Records {
	if r.err != nil || !r.version.HasJoins() {
		return join.Records{}
	}
	data := r.read(int(r.uint(0, maxJoins)))
	if r.err != nil || len(data) == 0 {
		return join.Records{}
	}
	joins, err := join.DecodeRecords(data)
	if err == nil && joins.IsEmpty() {
		err = join.ErrInvalid // no records are encoded without bytes
	}
	if err != nil {
		r.fail(err.Error())
		return join.Records{}
	}
	return joins
}
