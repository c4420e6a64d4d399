package history_test

import (
	"testing"

	"shardway/e2e/kit/history"
)

// unreachableHistory plants a history in which only the leader reaches node c, from now until the network is restored 30 s
// later. The node owns a shard at first.
func unreachableHistory() *historyBuilder {
	builder := validHistory()
	builder.now += 30_000
	builder.addMap(9, "a", "b", "c")
	builder.now += 1000
	builder.addFault(history.Unreachable, "c", 0, 0, 35_000)
	fault := &builder.Faults[len(builder.Faults)-1]
	fault.From, fault.ReachedByLeader, fault.RestoredAt = builder.now*ms, true, (builder.now+30_000)*ms
	return builder
}

// The leader must exclude a node that only it reaches within 14.5 s: twice dead-after until the other nodes report it, dead-after
// for the duration of the reports, drain-timeout + 1 s, and one second until the map is observed. The node must own
// nothing until the network is restored. Each planted history differs from a valid one by the smallest possible amount.
func TestNodeThatOnlyTheLeaderReachesMustBeExcluded(t *testing.T) {
	without, with := []string{"a", "b", "a"}, []string{"a", "b", "c"}
	type change struct {
		after  int64 // milliseconds since the start of the fault
		owners []string
	}
	plant := func(changes ...change) func(*historyBuilder) {
		return func(builder *historyBuilder) {
			startedAt := builder.now
			for i, next := range changes {
				builder.now = startedAt + next.after
				builder.addMap(uint64(10+i), next.owners...)
			}
		}
	}
	for _, c := range []struct {
		name  string
		plant func(builder *historyBuilder)
		want  map[history.Kind]int
	}{
		{"in time, back afterwards", plant(change{14_500, without}, change{30_001, with}), nil},
		{"never", plant(), map[history.Kind]int{history.MissedExclusion: 1}},
		{"too late", plant(change{14_501, without}), map[history.Kind]int{history.MissedExclusion: 1}},
		{"back too early", plant(change{9000, without}, change{30_000, with}), map[history.Kind]int{history.MissedExclusion: 1}},
		{"another node instead", plant(change{9000, []string{"a", "a", "c"}}), map[history.Kind]int{history.MissedExclusion: 1, history.FalseExclusion: 1}},
		{"another node, too", plant(change{9000, []string{"a", "a", "a"}}), map[history.Kind]int{history.FalseExclusion: 1}},
		{"never, and the network is restored before", func(builder *historyBuilder) { builder.Faults[0].RestoredAt = (builder.now + 14_499) * ms }, nil},
		{"never, and the network is restored at that time", func(builder *historyBuilder) { builder.Faults[0].RestoredAt = (builder.now + 14_500) * ms }, map[history.Kind]int{history.MissedExclusion: 1}},
		{"never, and the network is not restored", func(builder *historyBuilder) { builder.Faults[0].RestoredAt, builder.Faults[0].Until = 0, 0 }, map[history.Kind]int{history.MissedExclusion: 1}},
		{"never, and another node fails before", func(builder *historyBuilder) { builder.addFault(history.Killed, "b", 14_499, 14_499, 0) }, nil},
		{"never, and another node fails afterwards", func(builder *historyBuilder) { builder.addFault(history.Killed, "b", 14_501, 14_501, 0) }, map[history.Kind]int{history.MissedExclusion: 1}},
		{"never, and another node failed before", func(builder *historyBuilder) { builder.addFault(history.Killed, "b", -2000, -2000, 100) }, nil},
		{"never, and another node failed and recovered before", func(builder *historyBuilder) { builder.addFault(history.Killed, "b", -2000, -2000, -1) }, map[history.Kind]int{history.MissedExclusion: 1}},
		{"never, and a node outside the map is dead", func(builder *historyBuilder) { builder.addFault(history.Killed, "d", -2000, -2000, 0) }, map[history.Kind]int{history.MissedExclusion: 1}},
		{"never, and a node outside the map starts before", func(builder *historyBuilder) { builder.addFault(history.Terminated, "d", 1, 0, 5000) }, nil},
		{"never, and the machine stalls", func(builder *historyBuilder) { builder.addFault(history.Stalled, "", 5000, 0, 6000) }, nil},
		{"never, and another node pauses briefly", func(builder *historyBuilder) { builder.addFault(history.Paused, "b", 5000, 0, 5499) }, map[history.Kind]int{history.MissedExclusion: 1}},
		{"never, and the fault is of another kind", func(builder *historyBuilder) { builder.Faults[0].ReachedByLeader = false }, nil},
		{"it owned nothing before", func(builder *historyBuilder) { builder.Maps[len(builder.Maps)-1].Owners = without }, nil},
	} {
		builder := unreachableHistory()
		c.plant(builder)
		report := history.Check(builder.History, history.Rules{Shards: shards, Takeover: "lease"})
		total := 0
		for kind, count := range c.want {
			total += count
			if report.Count(kind) != count {
				t.Errorf("%s: %d times %v, want %d", c.name, report.Count(kind), kind, count)
			}
		}
		if total != len(report.Violations) {
			t.Errorf("%s: %v", c.name, report.Violations)
		}
	}
}
