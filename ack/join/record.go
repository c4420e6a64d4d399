package join

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	// MaxOpen is the maximum number of requests that wait for approval.
	MaxOpen = 64
	// MaxClosed is the maximum number of refused and expired requests. The oldest ones are deleted.
	MaxClosed = 64
	// MaxAdmitted is the maximum number of admitted servers. The oldest ones are deleted. It is above the maximum
	// number of members of a cluster, and the leader imports a deleted member again.
	MaxAdmitted = 2048
	// MaxServer is the maximum length of a server ID in bytes.
	MaxServer = 128
	// MaxReason is the maximum length of a reason in bytes.
	MaxReason = 200
)

// Stage is the stage of a request to join.
type Stage uint8

// The stages.
const (
	Requested    Stage = iota + 1 // waits for approval
	Refused                       // an operator has refused it
	Expired                       // no operator has decided in time
	Accepted                      // the leader may add the server
	Synchronized                  // the server has caught up with the log
	Active                        // the server owns shards, or is a gateway
)

// stageNames contains the name of each stage.
var stageNames = [...]string{Requested: "requested", Refused: "refused", Expired: "expired", Accepted: "accepted", Synchronized: "synchronized", Active: "active"}

// String returns the name of the stage.
func (s Stage) String() string {
	if s.isValid() {
		return stageNames[s]
	}
	return fmt.Sprintf("Stage(%d)", uint8(s))
}

// isValid reports whether s is one of the stages.
func (s Stage) isValid() bool { return s >= Requested && s <= Active }

// IsAdmitted reports whether the leader may add a server at this stage.
func (s Stage) IsAdmitted() bool { return s >= Accepted }

// StageTime is the time at which a stage began.
type StageTime struct {
	Stage Stage
	// UnixMilli is the time by the wall clock of the leader that ended the previous stage. It is only for display,
	// because the clocks of two leaders may differ.
	UnixMilli uint64
}

// Record is the request of one server to join the cluster.
type Record struct {
	// Server is the server ID: the node ID, a slash and the disk.
	Server string
	Stage  Stage
	// Ticket is the index of the log entry that contains the request, or that imported the server.
	Ticket uint64
	// Boot is the incarnation of the process that sent the request; zero for an imported server.
	Boot uint64
	// EffectiveIndex is the index of the log entry that admitted the server; zero means not admitted.
	EffectiveIndex uint64
	// Snapshot is the index of the newest snapshot of the leader at that time; zero means none. The server gets this
	// snapshot or a later one, or the whole log.
	Snapshot uint64
	// Reason is the reason of the operator for the approval or the refusal.
	Reason string
	// History contains the begin of each stage, in order. It must not be modified.
	History []StageTime
}

// Node returns the ID of the node.
func (r Record) Node() string { return NodeOf(r.Server) }

// NodeOf returns the node ID of a server ID.
func NodeOf(server string) string {
	return server[:max(strings.LastIndexByte(server, '/'), 0)]
}

// Records contains the records of all servers. It is immutable. The zero value contains no record.
type Records struct {
	byServer map[string]Record
	// bootstrapEnded is set if the cluster has had the expected number of bootstrap nodes.
	bootstrapEnded bool
}

// IsEmpty reports whether there is nothing to store.
func (rs Records) IsEmpty() bool { return len(rs.byServer) == 0 && !rs.bootstrapEnded }

// BootstrapEnded reports whether each further server needs an approval.
func (rs Records) BootstrapEnded() bool { return rs.bootstrapEnded }

// Of returns the record of a server.
func (rs Records) Of(server string) (Record, bool) {
	record, exists := rs.byServer[server]
	return record, exists
}

// IsAdmitted reports whether the leader may add the server.
func (rs Records) IsAdmitted(server string) bool { return rs.byServer[server].Stage.IsAdmitted() }

// All returns all records, ascending by server.
func (rs Records) All() []Record {
	all := make([]Record, 0, len(rs.byServer))
	for _, server := range slices.Sorted(maps.Keys(rs.byServer)) {
		all = append(all, rs.byServer[server])
	}
	return all
}

// Undecided returns the record of a node that is not admitted: an open, refused or expired request.
func (rs Records) Undecided(node string) (Record, bool) {
	return rs.find(func(record Record) bool { return record.Node() == node && !record.Stage.IsAdmitted() })
}

// Admitted returns the record of the admitted server of a node.
func (rs Records) Admitted(node string) (Record, bool) {
	return rs.find(func(record Record) bool { return record.Node() == node && record.Stage.IsAdmitted() })
}

// find returns the record that matches. At most one may match.
func (rs Records) find(matches func(Record) bool) (Record, bool) {
	for _, record := range rs.byServer {
		if matches(record) {
			return record, true
		}
	}
	return Record{}, false
}

// Count returns the number of records at a stage.
func (rs Records) Count(stage Stage) int {
	count := 0
	for _, record := range rs.byServer {
		if record.Stage == stage {
			count++
		}
	}
	return count
}

// Apply returns the records after the changes of the log entry at the given index. Changes that do not apply to
// the records are ignored. hasChanged is false if no change applied.
func (rs Records) Apply(index uint64, changes []Change) (next Records, hasChanged bool) {
	next = Records{byServer: maps.Clone(rs.byServer), bootstrapEnded: rs.bootstrapEnded}
	if next.byServer == nil {
		next.byServer = map[string]Record{}
	}
	for _, change := range changes {
		if next.apply(index, change) {
			hasChanged = true
		}
	}
	if !hasChanged {
		return rs, false
	}
	next.limit(func(stage Stage) bool { return stage == Refused || stage == Expired }, MaxClosed)
	next.limit(Stage.IsAdmitted, MaxAdmitted)
	return next, true
}

// WithoutNode returns the records after an operator has removed a node: the node needs a new approval. hasChanged
// is false if the node has no record.
func (rs Records) WithoutNode(node string) (next Records, hasChanged bool) {
	next = Records{byServer: maps.Clone(rs.byServer), bootstrapEnded: rs.bootstrapEnded}
	maps.DeleteFunc(next.byServer, func(_ string, record Record) bool { return record.Node() == node })
	return next, len(next.byServer) != len(rs.byServer)
}

// ForRecoveredCluster returns the records of a recovered cluster. The other nodes of a recovered cluster have new
// disks, and each of them needs an approval, even if the cluster has fewer nodes than it had at its bootstrap.
func ForRecoveredCluster() Records { return Records{bootstrapEnded: true} }

// apply applies one change. rs.byServer must not be shared.
func (rs *Records) apply(index uint64, change Change) (hasChanged bool) {
	record, exists := rs.byServer[change.Server]
	switch change.Kind {
	case EndBootstrap:
		hasChanged, rs.bootstrapEnded = !rs.bootstrapEnded, true
		return hasChanged
	case Request:
		if !rs.mayRequest(record, exists, change.Boot) {
			return false
		}
		rs.deleteOthers(change.Server, func(other Record) bool { return !other.Stage.IsAdmitted() })
		rs.set(Record{Server: change.Server, Ticket: index, Boot: change.Boot}, Requested, change)
		return true
	case Import:
		if admitted, isKnown := rs.Admitted(NodeOf(change.Server)); isKnown && (admitted.Server == change.Server || admitted.Stage == Accepted) {
			return false
		}
		rs.deleteOthers(change.Server, func(other Record) bool { return other.Stage.IsAdmitted() })
		rs.set(Record{Server: change.Server, Ticket: index, EffectiveIndex: index}, Active, change)
		return true
	case Accept, Refuse, Expire, Synchronize, Activate:
		if !exists || record.Ticket != change.Ticket || !slices.Contains(change.Kind.from(), record.Stage) {
			return false
		}
		if change.Kind == Accept {
			rs.deleteOthers(change.Server, func(Record) bool { return true })
			record.EffectiveIndex, record.Snapshot = index, change.Snapshot
		}
		if change.Kind == Accept || change.Kind == Refuse {
			record.Reason = change.Reason
		}
		rs.set(record, change.Kind.to(), change)
		return true
	}
	return false
}

// mayRequest reports whether a process of a server may begin a new request. exists reports whether the server has a
// record. A refused server has to be approved by an operator. An expired request is renewed only by a later process.
func (rs *Records) mayRequest(record Record, exists bool, boot uint64) bool {
	if exists && (record.Stage != Expired || boot <= record.Boot) {
		return false
	}
	return rs.Count(Requested) < MaxOpen
}

// deleteOthers deletes the records of other servers of the same node that match.
func (rs *Records) deleteOthers(server string, matches func(Record) bool) {
	maps.DeleteFunc(rs.byServer, func(other string, record Record) bool {
		return other != server && NodeOf(other) == NodeOf(server) && matches(record)
	})
}

// set stores a record that enters a stage by a change. The history keeps the last stages only.
func (rs *Records) set(record Record, stage Stage, change Change) {
	record.Stage = stage
	begin := StageTime{Stage: stage, UnixMilli: change.UnixMilli}
	record.History = append(slices.Clone(record.History), begin)
	if excess := len(record.History) - maxHistory; excess > 0 {
		record.History = record.History[excess:]
	}
	rs.byServer[record.Server] = record
}

// limit deletes the oldest records at the stages that match, until at most maximum of them are left.
func (rs *Records) limit(matches func(Stage) bool, maximum int) {
	var matching []Record
	for _, record := range rs.byServer {
		if matches(record.Stage) {
			matching = append(matching, record)
		}
	}
	if len(matching) <= maximum {
		return
	}
	slices.SortFunc(matching, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.Ticket, b.Ticket), cmp.Compare(a.Server, b.Server))
	})
	for _, record := range matching[:len(matching)-maximum] {
		delete(rs.byServer, record.Server)
	}
}
