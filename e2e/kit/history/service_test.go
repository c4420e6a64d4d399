//go:build linux

package history_test

import (
	"slices"
	"testing"

	"shardway/e2e/kit/history"
)

// twoServices are the services of these tests, whose apps are a and b, and a/2.
func twoServices() history.Rules {
	return history.Rules{
		Shards:       20,
		Services:     []history.Service{{Name: "chat", First: 0, Shards: 16}, {Name: "search", First: 16, Shards: 4}},
		ServiceOfApp: map[string]string{"a": "chat", "b": "chat", "a/2": "search"},
	}
}

// runIn adds a request for a key whose app gets the header of a service.
func (s *historyBuilder) runIn(id, service, key, app string, epoch uint64, duration int64) {
	s.addRequest(id, "GET", key, app, epoch, duration)
	run := &s.Runs[len(s.Runs)-1]
	run.Node, run.Service, run.Shard = app[:1], service, history.ShardOf(key, 20, twoServices().Services)
}

// addServiceMap adds a map after the last one. The first 16 shards belong to chat, and the last ones to search.
func (s *historyBuilder) addServiceMap(owners map[int]string) {
	next := history.Map{Epoch: uint64(100 + len(s.Maps)), At: s.now * ms}
	for shard := range 20 {
		owner := []string{"a", "b"}[shard%2]
		if shard >= 16 {
			owner = "a/2"
		}
		if changed, ok := owners[shard]; ok {
			owner = changed
		}
		next.Owners = append(next.Owners, owner)
	}
	s.Maps = append(s.Maps, next)
}

// validServiceHistory returns a valid history, in which the app b of chat fails.
func validServiceHistory() *historyBuilder {
	builder := &historyBuilder{now: 100}
	builder.addServiceMap(nil)
	builder.runIn("g1", "chat", "chat~1", "a", 5, 30)
	builder.runIn("g2", "search", "search~1", "a/2", 5, 30)
	builder.now = 20_000
	builder.Faults = append(builder.Faults, history.Fault{Kind: history.AppDown, Node: "b", From: builder.now * ms, LatestExit: builder.now * ms, Until: (builder.now + 200) * ms})
	moved := map[int]string{}
	for shard := 1; shard < 16; shard += 2 {
		moved[shard] = "a"
	}
	builder.addServiceMap(moved)
	builder.now = 60_000
	builder.addServiceMap(nil)
	builder.now = 80_000
	return builder
}

// TestCheckDetectsErrorsOfServices plants one error at a time into a valid history of two services.
func TestCheckDetectsErrorsOfServices(t *testing.T) {
	if err := history.Check(validServiceHistory().History, twoServices()).Err(); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name  string
		want  history.Kind
		plant func(builder *historyBuilder)
	}{
		{"an app of another service", history.WrongService, func(builder *historyBuilder) {
			builder.runIn("x", "search", "search~1", "a", 9, 30)
		}},
		{"an app of another service, with the header of its own", history.WrongService, func(builder *historyBuilder) {
			builder.runIn("x", "chat", "search~1", "a", 9, 30)
		}},
		{"the header of another service", history.WrongService, func(builder *historyBuilder) {
			builder.runIn("x", "search", "chat~1", "a", 9, 30)
		}},
		{"no header", history.WrongService, func(builder *historyBuilder) {
			builder.runIn("x", "", "chat~1", "a", 9, 30)
		}},
		{"a shard of another service", history.BadHeader, func(builder *historyBuilder) {
			builder.runIn("x", "search", "search~1", "a/2", 9, 30)
			builder.Runs[len(builder.Runs)-1].Shard -= 16
		}},
		{"two owners within a service", history.TwoOwners, func(builder *historyBuilder) {
			builder.runIn("x", "chat", "chat~1", "a", 9, 100)
			builder.now += 50
			builder.runIn("y", "chat", "chat~1", "b", 10, 100)
		}},
		{"one epoch at two owners of a service", history.SharedEpoch, func(builder *historyBuilder) {
			builder.runIn("x", "chat", "chat~1", "a", 9, 10)
			builder.now += 50
			builder.runIn("y", "chat", "chat~1", "b", 9, 10)
		}},
		{"a shard moves without a fault", history.MovedNeedlessly, func(builder *historyBuilder) {
			builder.addServiceMap(map[int]string{0: "b", 1: "a"})
		}},
	} {
		builder := validServiceHistory()
		tc.plant(builder)
		var kinds []history.Kind
		for _, violation := range history.Check(builder.History, twoServices()).Violations {
			kinds = append(kinds, violation.Kind)
		}
		if !slices.Contains(kinds, tc.want) {
			t.Errorf("%s: found %v, want %v", tc.name, kinds, tc.want)
		}
	}
}

// TestShardsOfServicesAreCountedInCluster checks that equal shards of two services are different shards.
func TestShardsOfServicesAreCountedInCluster(t *testing.T) {
	services := twoServices().Services
	for service, want := range map[string]uint32{"chat": 3, "search": 19, "": 3} {
		run := history.Run{Service: service, Shard: 3}
		if got := run.CountInCluster(services).Shard; got != want {
			t.Errorf("%q: shard %d, want %d", service, got, want)
		}
	}
	if shard := history.ShardOf("other~1", 20, services); shard != 20 {
		t.Errorf("a key without a service is in shard %d", shard)
	}
}
