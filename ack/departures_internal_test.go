package ack

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"shardway/shardmap"
)

// returnStage is a cluster whose log a test writes.
type returnStage struct {
	t     *testing.T
	s     *State
	index uint64
}

func newReturning(t *testing.T, shards int) *returnStage {
	t.Helper()
	r := &returnStage{t: t, s: NewState()}
	r.apply(EncodeBootstrap("c1", shards, DefaultTiming()), OutcomeBootstrapped)
	return r
}

func (r *returnStage) apply(entry []byte, want Outcome) {
	r.t.Helper()
	r.index++
	next, got, err := r.s.Apply(r.index, 1, entry)
	if err != nil || got != want {
		r.t.Fatalf("entry %d: outcome %d, %v, want %d", r.index, got, err, want)
	}
	checkSnapshot(r.t, next)
	r.s = next
}

// owned commits a map in which these nodes own the shards.
func (r *returnStage) owned(ids ...shardmap.NodeID) {
	r.t.Helper()
	var members []shardmap.Member
	for _, id := range ids {
		members = append(members, shardmap.Member{ID: id, Weight: 1})
	}
	want := shardmap.Assign(r.s.Committed(), members, shardmap.Policy{Barred: r.s.BarredShards()})
	entry, err := EncodeProposal(MinFormatVersion, ProposalEntry{Term: 1, Base: r.s.Committed().Epoch(), Want: want})
	if err != nil {
		r.t.Fatal(err)
	}
	r.apply(entry, OutcomeProposed)
	r.apply(EncodeCommit(MinFormatVersion, CommitEntry{Epoch: r.s.Proposed().Epoch(), Digest: r.s.Proposed().Digest()}), OutcomeCommitted)
}

func (r *returnStage) reports(want Outcome, apps ...AppReport) {
	r.t.Helper()
	r.apply(EncodeAppReports(MinFormatVersion, AppReportEntry{Term: 1, Reports: apps}), want)
}

// barred counts the shards that a node must not get.
func (r *returnStage) barred(id shardmap.NodeID) int {
	n := 0
	for s := range shardmap.Shard(r.s.Shards()) {
		if r.s.IsBarred(id, s) {
			n++
		}
	}
	return n
}

func TestShardsReturnAfterTheAppHasRestarted(t *testing.T) {
	r := newReturning(t, 12)
	r.reports(OutcomeAppsReported, AppReport{Node: "a", ReturnsNeedRestart: true}, AppReport{Node: "b", ReturnsNeedRestart: true}, AppReport{Node: "c"})
	r.owned("a", "b", "c")
	was := slices.Collect(r.s.Committed().Shards("a"))
	r.owned("b", "c") // a is drained
	left := r.s.Committed().Epoch()
	if n := r.barred("a"); n != 4 {
		t.Fatalf("%d shards are barred from a, want the 4 that left", n)
	}
	r.owned("a", "b", "c") // and uncordoned
	for s := range r.s.Committed().Shards("a") {
		if slices.Contains(was, s) {
			t.Errorf("shard %d went back to the app that had it", s)
		}
	}
	if n := r.s.Committed().ShardCount("a"); n != 4 {
		t.Errorf("a owns %d shards, want 4 that it never had", n)
	}
	if r.barred("c") != 0 || r.s.ReturnsNeedRestart("c") {
		t.Error("shards are barred from c, which lets them return")
	}
	r.reports(OutcomeIgnored, AppReport{Node: "a", ReturnsNeedRestart: true, StartedAfter: left - 1})
	r.reports(OutcomeAppsReported, AppReport{Node: "a", ReturnsNeedRestart: true, StartedAfter: left})
	if n := r.barred("a"); n != 0 {
		t.Errorf("%d shards are barred from a, which has restarted", n)
	}
	r.reports(OutcomeAppsReported, AppReport{Node: "b"})
	if r.s.ReturnsNeedRestart("b") || r.barred("b") != 0 {
		t.Error("shards are barred from b, which lets them return now")
	}
}

func TestLastNodeGetsShardsBack(t *testing.T) {
	r := newReturning(t, 12)
	r.reports(OutcomeAppsReported, AppReport{Node: "a", ReturnsNeedRestart: true}, AppReport{Node: "b", ReturnsNeedRestart: true})
	r.owned("a", "b")
	r.owned("b")
	r.owned("a")
	if n := r.s.StaleReturns("a"); n != 6 || r.s.Committed().ShardCount("a") != 12 {
		t.Errorf("a owns %d shards, of which %d returned to a stale app, want 12 and 6", r.s.Committed().ShardCount("a"), n)
	}
	r.owned("a", "b")
	if n := r.s.StaleReturns("b"); n != 0 || r.s.Committed().ShardCount("b") != 0 {
		t.Errorf("b owns %d shards though it has had all of them", r.s.Committed().ShardCount("b"))
	}
	r.apply(EncodePolicyChange(MinFormatVersion, PolicyEntry{Term: 1, Changes: []Change{{Kind: ChangeAppRestarted, Node: "a"}}}), OutcomePolicyChanged)
	if n := r.s.StaleReturns("a"); n != 0 {
		t.Errorf("%d stale returns after an operator said that the app has restarted", n)
	}
	// A rolled back proposal takes nothing away.
	entry, err := EncodeProposal(MinFormatVersion, ProposalEntry{Term: 1, Base: r.s.Committed().Epoch(), Want: shardmap.Assign(r.s.Committed(), fuzzMembers(2), shardmap.Policy{})})
	if err != nil {
		t.Fatal(err)
	}
	r.apply(entry, OutcomeProposed)
	if n := r.barred("a"); n != 0 {
		t.Errorf("a proposal bars %d shards", n)
	}
}

// More than maxDepartures sets bar shards for longer, never for shorter.
func TestDepartedShardsAreBounded(t *testing.T) {
	r := newReturning(t, 64)
	r.reports(OutcomeAppsReported, AppReport{Node: "a", ReturnsNeedRestart: true})
	all := []shardmap.NodeID{"a"}
	for i := range 9 {
		all = append(all, shardmap.NodeID(fmt.Sprint("n", i)))
	}
	r.owned("a")
	var left []shardmap.Epoch
	for i := range 9 {
		r.owned(all[:i+2]...) // each newcomer takes some of a's shards
		left = append(left, r.s.Committed().Epoch())
	}
	n := r.barred("a")
	if len(r.s.departures.byNode["a"]) != maxDepartures || n != 64-r.s.Committed().ShardCount("a") {
		t.Fatalf("%d sets of %d shards, want %d of %d", len(r.s.departures.byNode["a"]), n, maxDepartures, 64-r.s.Committed().ShardCount("a"))
	}
	r.apply(EncodeAppReports(MinFormatVersion, AppReportEntry{Term: 1, Reports: []AppReport{{Node: "a", ReturnsNeedRestart: true, StartedAfter: left[2]}}}), OutcomeIgnored)
	r.reports(OutcomeAppsReported, AppReport{Node: "a", ReturnsNeedRestart: true, StartedAfter: left[6]})
	if m := r.barred("a"); m == 0 || m >= n {
		t.Errorf("%d of %d shards are barred after a restart before the last two departures", m, n)
	}
}

func TestNodesOutsideTheMapAreBounded(t *testing.T) {
	r := newReturning(t, 8)
	r.owned("a")
	for i := 0; i < maxFormerDepartures+200; i += 100 {
		var apps []AppReport
		for k := range 100 {
			apps = append(apps, AppReport{Node: shardmap.NodeID(fmt.Sprintf("n%05d", i+k)), ReturnsNeedRestart: true})
		}
		r.reports(OutcomeAppsReported, apps...)
	}
	if n := len(r.s.departures.byNode); n != maxFormerDepartures {
		t.Errorf("%d nodes are remembered, want %d", n, maxFormerDepartures)
	}
}

// The report of a joining node is kept, however many former nodes have departures. Otherwise
// the leader would submit the same report without end.
func TestReportOfAJoiningNodeIsKept(t *testing.T) {
	r := newReturning(t, 8)
	r.owned("a")
	var set shardmap.ShardSet
	set.Add(1)
	for i := range maxFormerDepartures {
		setKey(&r.s.departures.byNode, shardmap.NodeID(fmt.Sprintf("n%05d", i)), []departedShards{{1, set}})
	}
	joining := AppReport{Node: "z", ReturnsNeedRestart: true}
	r.reports(OutcomeAppsReported, joining)
	if r.s.NeedsAppReport(joining) {
		t.Error("the report that was written is news again")
	}
	if n := len(r.s.departures.byNode); n > maxFormerDepartures+1 {
		t.Errorf("%d nodes are remembered, want at most %d outside the map", n, maxFormerDepartures)
	}
}

// Reports that no leader writes are corrupt entries.
func TestReportsAreChecked(t *testing.T) {
	for name, c := range map[string]AppReportEntry{
		"none":         {Term: 1},
		"out of order": {Term: 1, Reports: []AppReport{{Node: "b"}, {Node: "a"}}},
		"twice":        {Term: 1, Reports: []AppReport{{Node: "a"}, {Node: "a"}}},
		"no node":      {Term: 1, Reports: []AppReport{{}}},
	} {
		if _, _, err := decodeCommand(EncodeAppReports(MinFormatVersion, c)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", name, err)
		}
	}
}

// The state of the largest cluster has a bounded size: every node has lost half of all shards,
// in four maps.
func TestDeparturesTakeOneBitPerShard(t *testing.T) {
	s := NewState()
	s.clusterID, s.committed = "c1", shardmap.New(MaxShards)
	s.proposed, s.timing, s.previousTiming = s.committed, DefaultTiming(), DefaultTiming()
	var set shardmap.ShardSet
	for i := shardmap.Shard(1); i < MaxShards; i += 2 {
		set.Add(i)
	}
	empty := len(mustEncode(t, s))
	s.departures.byNode = map[shardmap.NodeID][]departedShards{"a": {{1, set}, {2, set}, {3, set}, {4, set}}}
	if n := len(mustEncode(t, s)) - empty; n > maxDepartures*(MaxShards/8+8) {
		t.Errorf("a node takes %d bytes of a snapshot, want at most one bit for each shard and set", n)
	}
	checkSnapshot(t, s)
}
