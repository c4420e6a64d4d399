package ack

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"

	"shardway/shardmap"
)

// When a shard moves to another node, the previous owner's app may keep stale state in memory. An
// app with hooks drops that state. An app without hooks must not get the shard back before the app
// has restarted (docs/internals/protocol-returns.md).
//
// For each node whose app falls under this rule, the state contains the shards that have left the
// node, one bit for each shard. The node reports in its heartbeats which map it had applied before its
// app process started (agent.AppWatch), and the leader writes the report into the log. Shards that left the
// node with that map or an earlier one are then forgotten, since the app process cannot hold them.

const (
	// maxDepartures is the maximum number of sets of one node. Beyond that, the two oldest sets are
	// merged, which bars some shards from the node longer than necessary.
	maxDepartures = 4
	// maxFormerDepartures is the maximum number of nodes outside the map with recorded departures.
	// The node whose shards left longest ago is removed first.
	maxFormerDepartures = shardmap.MaxMembers
)

// departedShards is a set of shards that have left a node.
type departedShards struct {
	// epoch is the epoch of the map with which the last of these shards left.
	epoch  shardmap.Epoch
	shards shardmap.ShardSet
}

// departures contains the shards that have left each node and may not return before its app has
// restarted. A node whose shards return without a restart has no entry.
type departures struct {
	byNode map[shardmap.NodeID][]departedShards // by app instance, as in shardmap.InstanceID; oldest first
	index  uint64                               // index of the last entry, other than a commit, that changed byNode
}

// AppReport is the report of a node about restarts of its app.
type AppReport struct {
	// Node is the ID of the app instance, as returned by shardmap.InstanceID.
	Node shardmap.NodeID
	// ReturnsNeedRestart is set if shards that left the app return only after it has restarted.
	ReturnsNeedRestart bool
	// StartedAfter is the epoch of a committed map: the app process started after the node had
	// applied that map. Zero means that the start is not known.
	StartedAfter shardmap.Epoch
}

// AppReportEntry is the entry with which a leader writes the reports of nodes into the log.
type AppReportEntry struct {
	// Term is the Raft term of the leader that received the reports (see ProposalEntry).
	Term uint64
	// Reports are ordered by node.
	Reports []AppReport
}

// applyAppReports applies the reports of nodes. It ignores an entry that would not change the
// state, and an entry of an earlier leader.
func (s *State) applyAppReports(term uint64, entry AppReportEntry) (*State, Outcome, error) {
	if !s.Bootstrapped() || term != entry.Term {
		return s.ignore()
	}
	changed := false
	for _, report := range entry.Reports {
		changed = s.departures.applyReport(report) || changed
	}
	if !changed {
		return s.ignore()
	}
	isMember := func(id shardmap.NodeID) bool {
		node, _, _ := shardmap.ParseInstance(id)
		return s.committed.IsMember(node) || s.proposed.IsMember(node)
	}
	s.departures.limit(entry.Reports, isMember)
	s.departures.index = s.index
	return s, OutcomeAppsReported, nil
}

// DeparturesIndex returns the index of the last entry that has changed the departures or the
// reports of apps; zero means none.
func (s *State) DeparturesIndex() uint64 { return s.departures.index }

// NeedsAppReport reports whether the report would change the state.
func (s *State) NeedsAppReport(report AppReport) bool { return s.departures.isChangedBy(report) }

// isChangedBy reports whether a report of an app would change the departures.
func (dp *departures) isChangedBy(report AppReport) bool {
	departed, known := dp.byNode[report.Node]
	if report.ReturnsNeedRestart != known {
		return true
	}
	return len(departed) > 0 && departed[0].epoch <= report.StartedAfter
}

// applyReport applies one report. It forgets the shards that left the node before its app process
// started, because that process cannot hold them. It returns true if the state has changed.
func (dp *departures) applyReport(report AppReport) bool {
	if !dp.isChangedBy(report) {
		return false
	}
	dp.byNode = maps.Clone(dp.byNode)
	if !report.ReturnsNeedRestart {
		delete(dp.byNode, report.Node)
		return true
	}
	departed := dp.byNode[report.Node]
	expired := 0 // number of sets that left before the app process started, which come first
	for expired < len(departed) && departed[expired].epoch <= report.StartedAfter {
		expired++
	}
	setKey(&dp.byNode, report.Node, slices.Clone(departed[expired:]))
	return true
}

// forget removes the recorded departures of a node, or of one instance of it, after an operator has
// confirmed that its app holds no stale state. name is NODE or NODE/INSTANCE
// (shardmap.InstanceName). index is the index of the log entry.
func (dp *departures) forget(name shardmap.NodeID, index uint64) {
	node, instance, isNamed := shardmap.ParseInstance(name)
	isMatch := func(id shardmap.NodeID) bool {
		idNode, idInstance, _ := shardmap.ParseInstance(id)
		return idNode == node && (!isNamed || idInstance == instance)
	}
	byNode := maps.Clone(dp.byNode)
	for id, departed := range dp.byNode {
		if isMatch(id) && len(departed) > 0 {
			// A nil list keeps the entry, because shards may still return to this app only after a
			// restart.
			byNode[id], dp.index = nil, index
		}
	}
	dp.byNode = byNode
}

// recordMoves records which shards leave which nodes with the map being committed.
func (dp *departures) recordMoves(committed, proposed *shardmap.Map) {
	if len(dp.byNode) == 0 {
		return
	}
	leaving := map[shardmap.NodeID]shardmap.ShardSet{}
	for _, move := range shardmap.Diff(committed, proposed) {
		if move.From == "" {
			continue
		}
		from := shardmap.InstanceID(move.From, move.FromInstance)
		if _, known := dp.byNode[from]; known {
			set := leaving[from]
			set.Add(move.Shard)
			leaving[from] = set
		}
	}
	if len(leaving) == 0 {
		return
	}
	dp.byNode = maps.Clone(dp.byNode)
	for id, shards := range leaving {
		dp.byNode[id] = addDeparture(dp.byNode[id], departedShards{epoch: proposed.Epoch(), shards: shards})
	}
}

// addDeparture returns a copy of departed with one more set. If there are too many, it merges the
// two oldest sets. The merged set has the later epoch of the two.
func addDeparture(departed []departedShards, added departedShards) []departedShards {
	departed = append(slices.Clone(departed), added)
	if len(departed) <= maxDepartures {
		return departed
	}
	departed[1].shards = departed[0].shards.Union(departed[1].shards)
	return departed[1:]
}

// limit bounds the nodes for which isMember returns false, identically on every node. It removes
// the nodes whose shards left longest ago, but keeps those that have just reported, because the
// leader would otherwise resubmit their next report. byNode must have been copied.
func (dp *departures) limit(reported []AppReport, isMember func(shardmap.NodeID) bool) {
	limit := maxFormerDepartures
	var removable []shardmap.NodeID
	for id := range dp.byNode {
		if isMember(id) {
			continue
		}
		hasReported := slices.ContainsFunc(reported, func(report AppReport) bool { return report.Node == id })
		if hasReported {
			limit = max(limit-1, 0)
		} else {
			removable = append(removable, id)
		}
	}
	if len(removable) <= limit {
		return
	}
	slices.SortFunc(removable, func(a, b shardmap.NodeID) int {
		return cmp.Or(cmp.Compare(dp.lastDeparture(a), dp.lastDeparture(b)), cmp.Compare(a, b))
	})
	for _, id := range removable[:len(removable)-limit] {
		delete(dp.byNode, id)
	}
}

// lastDeparture returns the epoch of the newest map with which a shard has left the node; zero means
// none.
func (dp *departures) lastDeparture(node shardmap.NodeID) shardmap.Epoch {
	departed := dp.byNode[node]
	if len(departed) == 0 {
		return 0
	}
	return departed[len(departed)-1].epoch
}

// IsBarred reports whether the shard has left the app instance with the given ID (see
// shardmap.InstanceID), so that the app must restart before the shard may return. It is also true
// for a shard that has returned.
func (s *State) IsBarred(node shardmap.NodeID, shard shardmap.Shard) bool {
	return slices.ContainsFunc(s.departures.byNode[node], func(departed departedShards) bool { return departed.shards.Has(shard) })
}

// ReturnsNeedRestart reports whether shards return to the app instance with the given id only after it
// has restarted.
func (s *State) ReturnsNeedRestart(node shardmap.NodeID) bool {
	_, known := s.departures.byNode[node]
	return known
}

// StaleReturns returns how many shards have returned to the node although its app has not
// restarted since they left: no other node could own them.
func (s *State) StaleReturns(node shardmap.NodeID) int {
	if len(s.departures.byNode) == 0 {
		return 0
	}
	count := 0
	barred := map[shardmap.NodeID]shardmap.ShardSet{} // by instance
	for shard := range s.committed.Shards(node) {
		id := s.committed.OwnerInstanceID(shard)
		set, known := barred[id]
		if !known {
			set = unionOf(s.departures.byNode[id])
			barred[id] = set
		}
		if set.Has(shard) {
			count++
		}
	}
	return count
}

// unionOf returns the shards in all of the sets.
func unionOf(departed []departedShards) shardmap.ShardSet {
	var all shardmap.ShardSet
	for _, set := range departed {
		all = all.Union(set.shards)
	}
	return all
}

// BarredShards returns the shards that each app instance must not get, for shardmap.Assign.
func (s *State) BarredShards() map[shardmap.NodeID]shardmap.ShardSet {
	var all map[shardmap.NodeID]shardmap.ShardSet
	for id, departed := range s.departures.byNode {
		if len(departed) > 0 {
			setKey(&all, id, unionOf(departed))
		}
	}
	return all
}

// EncodeAppReports encodes the entry in the given format version.
func EncodeAppReports(version FormatVersion, entry AppReportEntry) []byte {
	w := newWriter(version)
	w.byte(kindAppReports)
	w.uint(entry.Term)
	w.uint(uint64(len(entry.Reports)))
	for _, report := range entry.Reports {
		w.text(string(report.Node))
		w.bool(report.ReturnsNeedRestart)
		w.uint(uint64(report.StartedAfter))
	}
	return w.buf
}

// readAppReportEntry decodes the output of EncodeAppReports after its kind.
func (r *reader) readAppReportEntry() AppReportEntry {
	entry := AppReportEntry{Term: r.uint(0, maxUint)}
	last := shardmap.NodeID("")
	for range r.uint(1, MaxChanges) {
		report := AppReport{Node: r.readInstanceID(), ReturnsNeedRestart: r.bool(), StartedAfter: r.readEpoch()}
		if r.err == nil && report.Node <= last {
			r.fail("reports out of order")
		}
		if r.err != nil {
			break
		}
		entry.Reports = append(entry.Reports, report)
		last = report.Node
	}
	return entry
}

// writeDepartures writes the departed shards of all nodes in a fixed order. A set takes one bit for
// each shard.
func (w *writer) writeDepartures(d departures) {
	w.uint(d.index)
	w.uint(uint64(len(d.byNode)))
	for _, id := range slices.Sorted(maps.Keys(d.byNode)) {
		w.text(string(id))
		w.uint(uint64(len(d.byNode[id])))
		for _, departed := range d.byNode[id] {
			w.uint(uint64(departed.epoch))
			w.uint(uint64(len(departed.shards)))
			for _, word := range departed.shards {
				w.buf = binary.LittleEndian.AppendUint64(w.buf, word)
			}
		}
	}
}

// readDepartures decodes the output of writer.writeDepartures for the given number of shards.
func (r *reader) readDepartures(shards int) departures {
	index := r.uint(0, maxUint)
	byNode := readSorted(r, r.readInstanceID, func() []departedShards {
		var sets []departedShards
		for range r.uint(0, maxDepartures) {
			departed := departedShards{epoch: shardmap.Epoch(r.uint(1, maxUint)), shards: r.readShardSet(shards)}
			if r.err == nil && len(sets) > 0 && departed.epoch <= sets[len(sets)-1].epoch {
				r.fail("departures out of order")
			}
			if r.err != nil {
				return nil
			}
			sets = append(sets, departed)
		}
		return sets
	})
	return departures{byNode: byNode, index: index}
}

// readShardSet reads a non-empty set of shards below shards. The last word of an encoded set is never
// zero, so that equal sets have equal bytes.
func (r *reader) readShardSet(shards int) shardmap.ShardSet {
	maxWords := (shards + 63) / 64
	words := int(r.uint(1, uint64(maxWords)))
	data := r.read(8 * words)
	if r.err != nil {
		return nil
	}
	set := make(shardmap.ShardSet, words)
	for i := range set {
		set[i] = binary.LittleEndian.Uint64(data[8*i:])
	}
	lastWord, usedBits := set[words-1], shards-64*(words-1) // bits of the last word that are shards
	if lastWord == 0 || usedBits < 64 && lastWord>>usedBits > 0 {
		r.fail("shard set out of range")
	}
	return set
}
