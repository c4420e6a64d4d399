package selfcheck_test

import (
	"strings"
	"testing"
	"time"

	"shardway/diagnosis"
	"shardway/node/selfcheck"
	"shardway/shardmap"
)

var now = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// mapOf returns a map of three nodes with the given epoch, derived from previous.
func mapOf(previous *shardmap.Map, epoch shardmap.Epoch, nodes ...string) *shardmap.Map {
	var members []shardmap.Member
	for _, node := range nodes {
		members = append(members, shardmap.Member{ID: shardmap.NodeID(node), Weight: 1})
	}
	return shardmap.Assign(previous, members, shardmap.Policy{}).WithEpoch(previous, epoch)
}

// empty returns a map without owners.
func empty() *shardmap.Map { return shardmap.New(60) }

func TestTwoLeadersOfOneTermAreFound(t *testing.T) {
	c := new(selfcheck.Checker)
	for term := range uint64(100) {
		for _, node := range []string{"a", "b", "c"} {
			c.ObserveStatement(now, node, selfcheck.Statement{Term: term, Leader: []string{"a", "b", "c"}[term%3]})
			c.ObserveStatement(now, node, selfcheck.Statement{Term: term})
		}
	}
	if got := c.Report(now, selfcheck.Members{}); got.TwoLeaders != nil {
		t.Fatalf("ordinary elections: %+v", got.TwoLeaders)
	}
	c.ObserveStatement(now, "b", selfcheck.Statement{Term: 99, Leader: "b"})
	for _, after := range []time.Duration{0, selfcheck.ShownFor - 1} {
		if got := c.Report(now.Add(after), selfcheck.Members{}); got.TwoLeaders == nil || *got.TwoLeaders != (diagnosis.LeaderPair{Term: 99, First: "a", Second: "b"}) {
			t.Errorf("after %v: %+v", after, got.TwoLeaders)
		}
	}
	if got := c.Report(now.Add(selfcheck.ShownFor), selfcheck.Members{}); got.TwoLeaders != nil {
		t.Errorf("after an hour: %+v", got.TwoLeaders)
	}
}

func TestTwoOwnersAreFound(t *testing.T) {
	first := mapOf(empty(), 7, "a", "b", "c")
	second := mapOf(first, 9, "a", "b")
	report := func(maps ...*shardmap.Map) *diagnosis.OwnerPair {
		c := new(selfcheck.Checker)
		for _, m := range maps {
			c.ObserveMap(now, m)
			c.ObserveStatement(now, "a", selfcheck.Statement{Epoch: m.Epoch(), Digest: selfcheck.DigestOf(m)})
		}
		return c.Report(now, selfcheck.Members{}).TwoOwners
	}
	if got := report(empty(), first, second, mapOf(second, 12, "a", "b", "c", "d")); got != nil {
		t.Errorf("ordinary maps: %+v", got)
	}
	// The epoch of the second map is too low, so that moved shards have the same ownership epoch.
	if got := report(first, mapOf(first, 7, "a", "b")); got == nil || got.IsWholeMap || got.Epoch != 7 || got.First != "c" {
		t.Errorf("a shard moved within one ownership epoch: %+v", got)
	}
	// A longer map has the shards of a new service.
	longer := func(epoch shardmap.Epoch, ids ...shardmap.NodeID) *shardmap.Map {
		var members []shardmap.Member
		running := map[shardmap.NodeID]shardmap.InstanceSet{}
		for _, id := range ids {
			members, running[id] = append(members, shardmap.Member{ID: id, Weight: 1}), 0
		}
		services := []shardmap.Service{{Count: first.Len(), Instances: running}, {First: shardmap.Shard(first.Len()), Count: 4, Instances: running}}
		return shardmap.Assign(first, members, shardmap.Policy{Services: services}).WithEpoch(first, epoch)
	}
	if got := report(first, longer(9, "a", "b", "c")); got != nil {
		t.Errorf("a longer map: %+v", got)
	}
	if got := report(first, longer(7, "a", "b")); got == nil || got.First != "c" {
		t.Errorf("a shard moved within one ownership epoch to a longer map: %+v", got)
	}
	c := new(selfcheck.Checker)
	c.ObserveStatement(now, "a", selfcheck.Statement{Epoch: 9, Digest: selfcheck.DigestOf(second)})
	c.ObserveStatement(now, "b", selfcheck.Statement{Epoch: 9, Digest: selfcheck.DigestOf(first)})
	if got := c.Report(now, selfcheck.Members{}).TwoOwners; got == nil || *got != (diagnosis.OwnerPair{Epoch: 9, First: "a", Second: "b", IsWholeMap: true}) {
		t.Errorf("two maps of one epoch: %+v", got)
	}
}

func TestLeaseThatEndsTooLateIsFound(t *testing.T) {
	c := new(selfcheck.Checker)
	c.ObserveLease(now, 0, 0)
	c.ObserveLease(now, 7*time.Second, 7*time.Second)
	if got := c.Report(now, selfcheck.Members{}).LeaseExcess; got != 0 {
		t.Errorf("a lease within its limit: %v", got)
	}
	c.ObserveLease(now, 9*time.Second, 7*time.Second)
	if got := c.Report(now, selfcheck.Members{}).LeaseExcess; got != 2*time.Second {
		t.Errorf("excess = %v, want 2s", got)
	}
}

// A node that is being removed may own shards, or lead, for a moment.
func TestOwnersAndLeadersOutsideTheClusterAreFound(t *testing.T) {
	members := selfcheck.Members{
		Term: 3, LogTerm: 3, Leader: "b", Voters: []string{"a", "b"}, All: []string{"a", "b", "c"}, Owners: []string{"a", "b", "c"}, RemovalTime: 10 * time.Second,
	}
	c := new(selfcheck.Checker)
	report := func(after time.Duration, members selfcheck.Members) string {
		got := c.Report(now.Add(after), members)
		return strings.Join(got.OwnersNotMembers, " ") + "/" + got.LeaderNotMember
	}
	outside := members
	outside.Leader, outside.All = "c", []string{"a", "b"}
	nextTerm, oldLog, noLeader, kept := outside, outside, outside, outside
	nextTerm.Term, nextTerm.LogTerm = 4, 4
	oldLog.LogTerm = 2
	noLeader.Leader = ""
	kept.Owners = nil
	for _, step := range []struct {
		after   time.Duration
		members selfcheck.Members
		want    string
	}{
		{0, members, "/"},
		{time.Second, outside, "/"},
		{5 * time.Second, outside, "/"},
		{6 * time.Second, outside, "/c"},
		{15 * time.Second, outside, "/c"},
		{16 * time.Second, outside, "c/c"},
		{17 * time.Second, members, "/"},
		{18 * time.Second, selfcheck.Members{}, "/"},
		// The log of this node has no entry of the leader yet.
		{20 * time.Second, oldLog, "/"},
		{40 * time.Second, oldLog, "/"},
		{41 * time.Second, outside, "/"},
		{55 * time.Second, outside, "/c"},
		{56 * time.Second, outside, "c/c"},
		// Another leader begins again.
		{57 * time.Second, nextTerm, "/"},
		{58 * time.Second, nextTerm, "/"},
		{62 * time.Second, nextTerm, "/"},
		{63 * time.Second, nextTerm, "/c"},
		{73 * time.Second, nextTerm, "c/c"},
		// Without a leader, nothing removes a node. Without another owner, the map is kept.
		{74 * time.Second, outside, "/"},
		{75 * time.Second, noLeader, "/"},
		{99 * time.Second, noLeader, "/"},
		{100 * time.Second, kept, "/"},
		{120 * time.Second, kept, "/c"},
	} {
		if got := report(step.after, step.members); got != step.want {
			t.Errorf("after %v: %q, want %q", step.after, got, step.want)
		}
	}
}

func TestInvalidStatementsAreRejected(t *testing.T) {
	digest := strings.Repeat("0", 64)
	for _, c := range []struct {
		statement selfcheck.Statement
		want      bool
	}{
		{selfcheck.Statement{}, true},
		{selfcheck.Statement{Leader: "a", Digest: digest}, true},
		{selfcheck.Statement{Leader: "a\nb"}, false},
		{selfcheck.Statement{Leader: strings.Repeat("a", 1000)}, false},
		{selfcheck.Statement{Digest: "0"}, false},
	} {
		if got := c.statement.IsValid(); got != c.want {
			t.Errorf("%+v is valid: %t", c.statement, got)
		}
	}
}
