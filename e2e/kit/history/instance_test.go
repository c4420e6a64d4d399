//go:build linux

package history_test

import (
	"slices"
	"strings"
	"testing"

	"shardway/e2e/kit/history"
)

// instanceOwners returns the owners of 18 shards: three instances of the nodes a, b and c own two shards
// each, n and n + 9.
func instanceOwners() (owners []string) {
	for _, node := range []string{"a", "b", "c"} {
		owners = append(owners, node, node+"/2", node+"/3")
	}
	return append(owners, owners...)
}

// addInstanceMap adds a map after the last one, in which the given shards have other owners.
func (s *historyBuilder) addInstanceMap(owners map[int]string) {
	next := history.Map{Epoch: 10, At: s.now * ms, Owners: instanceOwners()}
	if n := len(s.Maps); n > 0 {
		next.Epoch, next.Owners = s.Maps[n-1].Epoch+1, slices.Clone(s.Maps[n-1].Owners)
	}
	for shard, owner := range owners {
		next.Owners[shard] = owner
	}
	s.Maps = append(s.Maps, next)
}

// addFailure adds the death of an app instance and its return 20 s later. Between them, owners are the
// new owners of shards.
func (s *historyBuilder) addFailure(app string, owners map[int]string) {
	s.now += 20_000
	s.addInstanceMap(nil)
	s.Faults = append(s.Faults, history.Fault{Kind: history.AppDown, Node: app, From: s.now * ms, LatestExit: s.now * ms, Until: (s.now + 20_000) * ms})
	s.now += 200
	s.addInstanceMap(owners)
	s.now += 20_000
	returned := map[int]string{}
	for shard := range owners {
		returned[shard] = instanceOwners()[shard]
	}
	s.addInstanceMap(returned)
}

// runAs adds a request that an app instance runs.
func (s *historyBuilder) runAs(id, key, app string, epoch uint64, duration int64) {
	s.addRequest(id, "GET", key, app, epoch, duration)
	s.Runs[len(s.Runs)-1].Node = app[:1]
}

// addNodeFailure adds the death of a node. owners are the new owners of shards.
func (s *historyBuilder) addNodeFailure(node string, owners map[int]string) {
	s.now += 20_000
	s.addInstanceMap(nil)
	s.Faults = append(s.Faults, history.Fault{Kind: history.Killed, Node: node, From: s.now * ms, LatestExit: s.now * ms})
	s.now += 2000
	s.addInstanceMap(owners)
}

func TestShardsMayMoveBetweenInstances(t *testing.T) {
	builder := &historyBuilder{now: 100}
	builder.runAs("x", key(1), "b/2", 10, 50)
	builder.now += 60
	builder.runAs("y", key(1), "b/3", 11, 50)
	builder.addInstanceMap(nil)
	builder.addFailure("b/2", map[int]string{4: "b/3", 13: "b"})
	builder.addFailure("b", map[int]string{3: "b/2", 12: "b/3"})
	builder.now += 20_000
	builder.Drains = append(builder.Drains, history.Drain{Node: "a", IsInstance: true, From: builder.now * ms})
	builder.addInstanceMap(map[int]string{0: "a/3", 9: "a/2"})
	builder.now += 20_000
	builder.addInstanceMap(map[int]string{0: "a", 9: "a"})
	// A node fails while an instance of another one fails.
	builder.Faults = append(builder.Faults, history.Fault{Kind: history.AppDown, Node: "b/2", From: (builder.now + 20_000) * ms})
	builder.addNodeFailure("c", map[int]string{6: "b", 7: "b/3", 8: "b", 4: "b", 13: "b/3", 15: "a", 16: "a/2", 17: "a/3"})
	report := history.Check(builder.History, history.Rules{SeveralInstances: true})
	if err := report.Err(); err != nil {
		t.Fatal(err)
	}
	if report.JudgedMapChanges < 8 {
		t.Errorf("%d map changes judged, want at least 8", report.JudgedMapChanges)
	}
	if report.Handovers != 1 {
		t.Errorf("%d handovers, want the one from b/2 to b/3", report.Handovers)
	}
}

// TestCheckDetectsErrorsOfInstances plants one error of app instances at a time. Check must find it, and
// nothing else.
func TestCheckDetectsErrorsOfInstances(t *testing.T) {
	for _, c := range []struct {
		name  string
		want  history.Kind
		plant func(builder *historyBuilder)
	}{
		{"two instances of a node serve one key at the same time", history.TwoOwners, func(builder *historyBuilder) {
			builder.runAs("x", key(1), "b/2", 10, 100)
			builder.now += 50
			builder.runAs("y", key(1), "b/3", 11, 5)
		}},
		{"two instances, and the first one of the node was not paused", history.TwoOwners, func(builder *historyBuilder) {
			builder.Faults = append(builder.Faults, history.Fault{Kind: history.Paused, Node: "c", From: builder.now * ms, Until: (builder.now + 90) * ms})
			builder.runAs("x", key(1), "b", 10, 100)
			builder.now += 50
			builder.runAs("y", key(1), "b/2", 11, 5)
		}},
		{"two instances, and the run continues long after the first one hung", history.TwoOwners, func(builder *historyBuilder) {
			builder.Faults = append(builder.Faults, history.Fault{Kind: history.AppHung, Node: "b", From: builder.now * ms, Until: (builder.now + 90) * ms})
			builder.runAs("x", key(1), "b", 10, 2000)
			builder.now += 50
			builder.runAs("y", key(1), "b/2", 11, 5)
		}},
		{"two instances, and another sibling hung", history.TwoOwners, func(builder *historyBuilder) {
			builder.Faults = append(builder.Faults, history.Fault{Kind: history.AppHung, Node: "b", From: builder.now * ms, Until: (builder.now + 90) * ms})
			builder.runAs("x", key(1), "b/2", 10, 100)
			builder.now += 50
			builder.runAs("y", key(1), "b/3", 11, 5)
		}},
		{"one epoch at two instances", history.SharedEpoch, func(builder *historyBuilder) {
			builder.runAs("x", key(1), "b", 10, 10)
			builder.now += 50
			builder.runAs("y", key(1), "b/2", 10, 5)
		}},
		{"a stale epoch at an instance", history.StaleEpoch, func(builder *historyBuilder) {
			builder.runAs("x", key(1), "b/3", 11, 10)
			builder.now += 50
			builder.runAs("y", key(1), "b/2", 10, 5)
		}},
		{"an instance runs a request for another node", history.BadHeader, func(builder *historyBuilder) {
			builder.runAs("x", key(1), "b/2", 10, 10)
			builder.Runs[len(builder.Runs)-1].Node = "a"
		}},
		{"a shard of a sibling moves", history.MovedNeedlessly, func(builder *historyBuilder) {
			builder.addFailure("b/2", map[int]string{4: "b/3", 3: "b/3"})
		}},
		{"a shard of a sibling moves, and a node without shards has not started", history.MovedNeedlessly, func(builder *historyBuilder) {
			builder.Faults = append(builder.Faults, history.Fault{Kind: history.Terminated, Node: "d"})
			builder.addFailure("b/2", map[int]string{4: "b/3", 3: "b/3"})
		}},
		{"a shard of another node moves", history.MovedNeedlessly, func(builder *historyBuilder) {
			builder.addFailure("b/2", map[int]string{4: "b/3", 6: "c/2"})
		}},
		{"a shard moves to another node", history.MovedNeedlessly, func(builder *historyBuilder) {
			builder.addFailure("b/2", map[int]string{4: "a"})
		}},
		{"the first instance fails, and a shard of its sibling moves", history.MovedNeedlessly, func(builder *historyBuilder) {
			builder.addFailure("b", map[int]string{3: "b/2", 4: "b/3"})
		}},
		{"the first instance fails, its shards move to siblings, and another shard moves", history.MovedNeedlessly, func(builder *historyBuilder) {
			builder.addFailure("b", map[int]string{3: "b/2", 12: "b/3", 4: "b/3"})
		}},
		{"siblings move shards while another node fails", history.MovedNeedlessly, func(builder *historyBuilder) {
			builder.addNodeFailure("c", map[int]string{6: "a", 7: "b/2", 8: "a/2", 15: "b/3", 16: "a/3", 17: "b", 3: "b/3", 5: "b"})
		}},
		{"a shard moves between the other nodes while a node fails", history.MovedNeedlessly, func(builder *historyBuilder) {
			builder.addNodeFailure("c", map[int]string{6: "a", 7: "b/2", 8: "a/2", 15: "b/3", 16: "a/3", 17: "b", 0: "b", 3: "a"})
		}},
		{"all siblings receive the shards of a drained node unevenly, and more shards move than needed", history.MovedNeedlessly, func(builder *historyBuilder) {
			builder.Drains = append(builder.Drains, history.Drain{Node: "c", From: builder.now * ms})
			builder.addInstanceMap(map[int]string{6: "b", 7: "b", 8: "b", 15: "b", 3: "b/2", 12: "b/3", 4: "b/3"})
		}},
		{"a shard moves to an instance that has just returned, and another one moves back", history.MovedNeedlessly, func(builder *historyBuilder) {
			builder.addFailure("b/2", map[int]string{4: "b/3", 13: "b"})
			builder.addInstanceMap(map[int]string{4: "b", 3: "b/2"})
		}},
		{"an instance that was paused with its node long ago loses all shards", history.FalseExclusion, func(builder *historyBuilder) {
			builder.Faults = append(builder.Faults, history.Fault{Kind: history.Paused, Node: "b", From: builder.now * ms, Until: (builder.now + 2000) * ms})
			builder.now += 20_000
			builder.addInstanceMap(map[int]string{4: "b/3", 13: "b"})
		}},
		{"a node loses all shards because an instance failed", history.FalseExclusion, func(builder *historyBuilder) {
			builder.addFailure("b/2", map[int]string{3: "a", 4: "a", 5: "a", 12: "a", 13: "a", 14: "a"})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			builder := &historyBuilder{now: 3000}
			builder.addInstanceMap(nil)
			c.plant(builder)
			report := history.Check(builder.History, history.Rules{SeveralInstances: true})
			found := report.Count(c.want)
			if c.want == history.FalseExclusion {
				found += report.Count(history.MovedNeedlessly)
			}
			if report.Count(c.want) == 0 || found != len(report.Violations) {
				t.Errorf("violations = %v, want only %q", report.Violations, c.want)
			}
		})
	}
}

// The test plants changes of the shards of nodes a and b, whose even spread needs a known number of moves.
func TestMovesMustNotExceedEvenSpread(t *testing.T) {
	for _, c := range []struct {
		name          string
		before, after string // the owners of all shards
		plant         func(builder *historyBuilder, change *history.Map)
		want          int
	}{
		{name: "an instance that returns gets its share", before: "a a a a/2 a/2 a/2", after: "a a a/3 a/2 a/2 a/3"},
		{name: "an instance that returns gets more than its share", before: "a a a a/2 a/2 a/2", after: "a a/3 a/3 a/2 a/2 a/3", want: 1},
		{name: "the largest owner may keep one shard more", before: "a a a a/2 a/2", after: "a a a/2 a/2 a/2", want: 1},
		{name: "the shards of a failed instance make a move needless", before: "a a a a/2 a/3 a/3", after: "a a a/2 a/2 a a/2", want: 1, plant: fail(history.AppDown, "a/3")},
		{name: "the shards of a failed node make a move needless", before: "a a a a/2 b b", after: "a a a/2 a/2 a a/2", want: 1, plant: fail(history.Killed, "b")},
		{name: "a node that returns gets its share", before: "a a/2 a a/2", after: "a a/2 b b"},
		{name: "a node that returns gets more than its share", before: "a a/2 a a/2 a a/2", after: "a a/2 b b b b", want: 1},
		{name: "a drained instance loses its idle shards first", before: "a a a/2 a/2 a/3 a/3", after: "a/2 a a/2 a/2 a/3 a/3", plant: drainInstance("a", 0)},
		{name: "the drain of the instance was withdrawn long ago", before: "a a a/2 a/2 a/3 a/3", after: "a/2 a a/2 a/2 a/3 a/3", plant: drainInstance("a", 20_000), want: 1},
		{name: "a drained node moves shards between its instances", before: "a a a/2 a/2 b b", after: "a a/2 a/2 a/2 b b", want: 1, plant: func(builder *historyBuilder, _ *history.Map) {
			builder.Drains = append(builder.Drains, history.Drain{Node: "a", From: builder.now * ms})
		}},
		{name: "the map follows maps that were not observed", before: "a a/2 a a/2 a a/2", after: "a a/2 b b b b", plant: func(_ *historyBuilder, change *history.Map) { change.FollowsGap = true }},
	} {
		builder := &historyBuilder{now: 3000}
		builder.addMap(10, strings.Fields(c.before)...)
		builder.now += 100
		builder.addMap(11, strings.Fields(c.after)...)
		change := &builder.Maps[1]
		if c.plant != nil {
			c.plant(builder, change)
		}
		report := history.Check(builder.History, history.Rules{SeveralInstances: true})
		if report.Count(history.MovedNeedlessly) != c.want || len(report.Violations) != c.want {
			t.Errorf("%s: violations = %v, want %d", c.name, report.Violations, c.want)
		}
		if isJudged := report.JudgedMapChanges == 1; isJudged == change.FollowsGap {
			t.Errorf("%s: %d changes judged", c.name, report.JudgedMapChanges)
		}
	}
}

// fail adds a fault of an app instance or a node shortly before the change.
func fail(kind history.FaultKind, name string) func(*historyBuilder, *history.Map) {
	return func(builder *historyBuilder, change *history.Map) {
		builder.Faults = append(builder.Faults, history.Fault{Kind: kind, Node: name, From: change.At - 50*ms, LatestExit: change.At - 50*ms})
	}
}

// drainInstance adds a drain of an app instance that was withdrawn some time before the change, in ms; 0 means that it
// is in force.
func drainInstance(app string, withdrawn int64) func(*historyBuilder, *history.Map) {
	return func(builder *historyBuilder, change *history.Map) {
		drain := history.Drain{Node: app, IsInstance: true, From: change.At - 30_000*ms}
		if withdrawn > 0 {
			drain.Until = change.At - withdrawn*ms
		}
		builder.Drains = append(builder.Drains, drain)
	}
}
