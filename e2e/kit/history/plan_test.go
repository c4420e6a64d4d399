package history_test

import (
	"slices"
	"testing"
	"time"

	"shardway/e2e/kit/history"
)

// addFullMap adds a map with these owners, and with one more shard for each node, so that every node owns
// a shard.
func (s *historyBuilder) addFullMap(epoch uint64, owners ...string) {
	s.addMap(epoch, append(slices.Clone(owners), "a", "b", "c")...)
}

// The test plants maps that ignore a drain or cordon by the smallest possible difference,
// with the epoch wrong. With the epoch right, they obey it.
func TestMapsMustObeyDrainsAndCordons(t *testing.T) {
	drained := func(after, before uint64) func(builder *historyBuilder) {
		return func(builder *historyBuilder) {
			builder.Drains = append(builder.Drains, history.Drain{Node: "c", From: builder.now * ms, LogRange: history.LogRange{After: after, Before: before}})
		}
	}
	cordoned := func(after, before uint64, nodes ...string) func(builder *historyBuilder) {
		return func(builder *historyBuilder) {
			for _, n := range nodes {
				builder.Cordons = append(builder.Cordons, history.Cordon{Node: n, LogRange: history.LogRange{After: after, Before: before}})
			}
		}
	}
	for _, c := range []struct {
		name         string
		wrong, right uint64 // the epoch of the last map
		addRequests  func(builder *historyBuilder)
		owners       []string
		later        int64 // ms until the last map
	}{
		{"a drained node has a shard", 21, 19, drained(20, 0), []string{"a", "b", "c"}, 11_000},
		{"a drained node has a shard, before it is withdrawn", 29, 30, drained(20, 30), []string{"a", "b", "c"}, 11_000},
		{"a drained node gets a shard", 21, 19, drained(20, 0), []string{"c", "b", "c"}, 50},
		{"a cordoned node gets a shard", 21, 19, cordoned(20, 0, "b"), []string{"b", "b", "c"}, 50},
		{"a cordoned node gets a shard, before it is withdrawn", 29, 30, cordoned(20, 30, "b"), []string{"b", "b", "c"}, 50},
		{"a cordoned node gets a shard of another cordoned node", 21, 19, cordoned(20, 0, "a", "b"), []string{"b", "b", "c"}, 50},
	} {
		for _, epoch := range []uint64{c.wrong, c.right} {
			builder := validHistory()
			c.addRequests(builder)
			builder.addFullMap(10, "a", "b", "c")
			builder.now += c.later
			builder.addFullMap(epoch, c.owners...)
			want := 0
			if epoch == c.wrong {
				want = 1
			}
			if report := history.Check(builder.History, history.Rules{Shards: shards}); report.Count(history.PlacementIgnored) != want || len(report.Violations) != want {
				t.Errorf("%s, epoch %d: violations = %v, want %d", c.name, epoch, report.Violations, want)
			}
		}
	}
	for name, addRequests := range map[string]func(builder *historyBuilder){
		"it keeps what it has, and another leaves":  cordoned(20, 0, "b"),
		"its entry is not known":                    cordoned(0, 0, "a"),
		"nobody else is left":                       cordoned(20, 0, "a", "b"),
		"a drain is known without where in the log": drained(0, 0),
	} {
		builder := validHistory()
		addRequests(builder)
		builder.addFault(history.Terminated, "c", 0, 0, 0)
		builder.addMap(10, "a", "b", "c")
		builder.now += 50
		builder.addMap(21, "a", "b", "a")
		if report := history.Check(builder.History, history.Rules{Shards: shards}); len(report.Violations) > 0 {
			t.Errorf("%s: %v", name, report.Violations)
		}
	}
}

// A request for a node applies to all its app instances, and a request for an instance only to this one.
func TestMapsOfInstancesMustObeyDrainsAndCordons(t *testing.T) {
	drain := func(node string, isInstance bool) func(builder *historyBuilder) {
		return func(builder *historyBuilder) {
			builder.Drains = append(builder.Drains, history.Drain{Node: node, IsInstance: isInstance, From: builder.now * ms, LogRange: history.LogRange{After: 20}})
		}
	}
	cordon := func(builder *historyBuilder) {
		builder.Cordons = append(builder.Cordons, history.Cordon{Node: "b", LogRange: history.LogRange{After: 20}})
	}
	for _, c := range []struct {
		name          string
		before, after []string // the owners of all shards
		later         int64    // ms until the last map
		request       func(builder *historyBuilder)
		want          int
	}{
		{"an instance of a drained node has a shard", []string{"a", "b/2"}, []string{"a", "b/2"}, 11_000, drain("b", false), 1},
		{"a shard moves to an instance of a drained node", []string{"a", "a", "b/2"}, []string{"a", "b/2", "b/2"}, 50, drain("b", false), 1},
		{"a shard moves between instances of a drained node", []string{"a", "b", "b/2", "b"}, []string{"a", "b", "b/2", "b/2"}, 50, drain("b", false), 0},
		{"the first instance is drained, and another one has a shard", []string{"a", "b/2"}, []string{"a", "b/2"}, 11_000, drain("b", true), 0},
		{"the first instance is drained, and has a shard", []string{"a", "b"}, []string{"a", "b"}, 11_000, drain("b", true), 1},
		{"an instance of a cordoned node gets a shard", []string{"a", "a", "b/2"}, []string{"a", "b/2", "b/2"}, 50, cordon, 1},
		{"a shard moves between instances of a cordoned node", []string{"a", "b", "b/2", "b"}, []string{"a", "b", "b/2", "b/2"}, 50, cordon, 0},
	} {
		builder := validHistory()
		c.request(builder)
		builder.addMap(10, c.before...)
		builder.now += c.later
		builder.addMap(21, c.after...)
		if report := history.Check(builder.History, history.Rules{Shards: shards}); report.Count(history.PlacementIgnored) != c.want || len(report.Violations) != c.want {
			t.Errorf("%s: violations = %v, want %d", c.name, report.Violations, c.want)
		}
	}
}

// A node restarts in place with a grace of 4 s. Its shards move only after that, unless
// another node had a fault, and it gains no shards.
func TestRestartInPlaceMustNotMoveShards(t *testing.T) {
	const grace = 4000
	for _, c := range []struct {
		name   string
		at     int64 // the last map, after SIGTERM
		owners []string
		rest   []string // owners of the other three shards; nil means as before
		more   func(builder *historyBuilder)
		want   int
	}{
		{name: "its shard moves within the grace period", at: grace - 1, owners: []string{"a", "b", "a"}, want: 1},
		{name: "its shard moves after the grace period", at: grace, owners: []string{"a", "b", "a"}},
		{name: "it gains a shard", at: grace - 1, owners: []string{"a", "c", "c"}, want: 1},
		{name: "shards of other nodes move", at: grace - 1, owners: []string{"b", "b", "c"}},
		{name: "its shard has moved before the SIGTERM", at: -1, owners: []string{"a", "b", "a"}},
		{name: "another node leaves", at: grace - 1, owners: []string{"a", "a", "a"}, want: 1, more: func(builder *historyBuilder) {
			builder.addFault(history.Terminated, "b", 0, 0, 0)
		}},
		{name: "it runs again, and gains a shard of a leaving node", at: 899, owners: []string{"a", "c", "c"}, rest: []string{"a", "a", "c"}, more: func(builder *historyBuilder) {
			builder.addFault(history.Terminated, "b", 800, 0, 0)
		}},
		{name: "it gains a shard of a leaving node before it runs again", at: 898, owners: []string{"a", "c", "c"}, rest: []string{"a", "a", "c"}, want: 1, more: func(builder *historyBuilder) {
			builder.addFault(history.Terminated, "b", 800, 0, 0)
		}},
		{name: "it runs again, and gains a shard of a node that keeps others", at: 899, owners: []string{"a", "c", "c"}, want: 1},
		{name: "it runs again, and gains shards of the first stage of a drain", at: 899, owners: []string{"a", "c", "c"}, more: func(builder *historyBuilder) {
			builder.Drains = append(builder.Drains, history.Drain{Node: "b", From: builder.Faults[0].From + 800*ms, Until: builder.Faults[0].From + 2000*ms})
		}},
		{name: "it gains shards of the first stage of a drain before it runs again", at: 898, owners: []string{"a", "c", "c"}, want: 1, more: func(builder *historyBuilder) {
			builder.Drains = append(builder.Drains, history.Drain{Node: "b", From: builder.Faults[0].From + 800*ms, Until: builder.Faults[0].From + 2000*ms})
		}},
		{name: "a node joins", at: grace - 1, owners: []string{"a", "b", "d"}},
		{name: "another node is killed", at: grace - 1, owners: []string{"a", "b", "a"}, more: func(builder *historyBuilder) {
			builder.addFault(history.Killed, "b", 10, 10, 900)
		}},
		{name: "another node was killed before", at: grace - 1, owners: []string{"a", "b", "a"}, want: 1, more: func(builder *historyBuilder) {
			builder.addFault(history.Killed, "b", -900, -900, -1)
		}},
		{name: "another node was paused briefly", at: grace - 1, owners: []string{"a", "b", "a"}, want: 1, more: func(builder *historyBuilder) {
			builder.addFault(history.Paused, "b", 100, 0, 599)
		}},
		{name: "it is drained during the restart", at: grace - 1, owners: []string{"a", "b", "a"}, more: func(builder *historyBuilder) {
			builder.Drains = append(builder.Drains, history.Drain{Node: "c", From: builder.Faults[0].From + 100*ms, Until: builder.Faults[0].From + 200*ms})
		}},
		{name: "another node is drained during the restart", at: grace - 1, owners: []string{"a", "b", "a"}, want: 1, more: func(builder *historyBuilder) {
			builder.Drains = append(builder.Drains, history.Drain{Node: "b", From: builder.Faults[0].From + 100*ms, Until: builder.Faults[0].From + 200*ms})
		}},
		{name: "it was drained before", at: grace - 1, owners: []string{"a", "b", "a"}, want: 1, more: func(builder *historyBuilder) {
			builder.Drains = append(builder.Drains, history.Drain{Node: "c", From: builder.Faults[0].From - 200*ms, Until: builder.Faults[0].From - 100*ms})
		}},
		{name: "a shard moves to its second app instance", at: grace - 1, owners: []string{"a", "b", "c/2"}, want: 1},
		{name: "it runs again, and spreads the shards of a leaving node", at: 899, owners: []string{"a", "c", "c/2"}, rest: []string{"a", "a", "c"}, more: func(builder *historyBuilder) {
			builder.addFault(history.Terminated, "b", 800, 0, 0)
		}},
		{name: "it hands over its shards", at: 100, owners: []string{"a", "b", "a"}, more: func(builder *historyBuilder) { builder.Faults[0].Grace = 0 }},
	} {
		builder := validHistory()
		builder.now += 30_000
		builder.addFault(history.Terminated, "c", 1, 700, 900)
		builder.Faults[0].Grace = grace * time.Millisecond
		if c.more != nil {
			c.more(builder)
		}
		builder.now -= 1000
		builder.addFullMap(9, "a", "b", "c")
		builder.now += 1001 + c.at
		if c.rest == nil {
			c.rest = []string{"a", "b", "c"}
		}
		builder.addMap(10, slices.Concat(c.owners, c.rest)...)
		if report := history.Check(builder.History, history.Rules{Shards: shards}); report.Count(history.MovedInGrace) != c.want || len(report.Violations) != c.want {
			t.Errorf("%s: violations = %v, want %d", c.name, report.Violations, c.want)
		}
	}
	// A node that owned nothing when it was terminated gains its share when it is back.
	builder := validHistory()
	builder.addMap(9, "a", "b", "a")
	builder.now += 50
	builder.addFault(history.Terminated, "c", 1, 700, 900)
	builder.Faults[0].Grace = grace * time.Millisecond
	builder.now += 1000
	builder.addMap(10, "a", "b", "c")
	if report := history.Check(builder.History, history.Rules{Shards: shards}); len(report.Violations) > 0 {
		t.Errorf("it owned nothing: %v", report.Violations)
	}
}
