package node_test

import (
	"strings"
	"testing"

	"shardway/ack"
	"shardway/admin/api"
	"shardway/node"
)

// An operator adds a service with another number of shards than in the configuration of node b. Nodes a and c cannot
// refuse that, because their configurations do not contain the service. Node b keeps running and reports both numbers.
// If it is started again, it refuses to start. A node whose own configuration contradicts the request refuses it.
func TestContradictingServiceStopsNoRunningNode(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) {
			if o.Dir.Node() == "b" {
				o.Services = []ack.ServiceSpec{{Name: "default", Shards: shards}, {Name: "chat", Shards: 8}}
			}
		}
		for _, id := range []string{"a", "b", "c"} {
			w.start(id)
		}
		w.untilSettled("a", "b", "c")
		w.untilVoters(3)
		b := w.all["b"]
		for b.node.Leads() {
			w.asks(b, api.Action{Verb: api.StepDown})
			w.untilSettled("a", "b", "c")
		}
		w.asks(w.leader(), api.Action{Verb: api.AddService, Service: "chat", Shards: 4})
		w.untilFindingsAre(b, "service-shards-differ: service chat has 4 shards in the cluster, and 8 in the configuration of node b", "set services.chat.shards to 4")
		w.untilFindingsAre(b, "service-not-started: no node has run service chat yet, so its 4 shards have no owner")
		w.untilSettled("a", "b", "c")
		if b.ended() {
			w.t.Fatalf("node b stopped: %v", b.err)
		}
		b.stop()
		w.until("node b has ended", b.ended)
		b.run()
		w.until("node b refuses to start", b.ended)
		if b.err == nil || !strings.Contains(b.err.Error(), "service chat has 4 shards in cluster") {
			w.t.Errorf("node b ended with %v", b.err)
		}
	})
}

// After a restart, a node first has the state of its last snapshot. That state may contain a service that has been
// removed and added again with another number of shards since, so the node must catch up before it compares.
func TestSnapshotWithRemovedServiceStopsNoNode(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		var configured []ack.ServiceSpec
		w.tune = func(o *node.Options) { o.Services = configured }
		for _, id := range []string{"a", "b", "c"} {
			w.start(id)
		}
		w.untilSettled("a", "b", "c")
		w.untilVoters(3)
		w.asks(w.leader(), api.Action{Verb: api.AddService, Service: "chat", Shards: 4})
		w.untilSettled("a", "b", "c")
		for _, process := range w.all {
			if err := process.node.TakeSnapshot(); err != nil {
				w.t.Fatal(err)
			}
		}
		w.asks(w.leader(), api.Action{Verb: api.RemoveService, Service: "chat"})
		w.asks(w.leader(), api.Action{Verb: api.AddService, Service: "chat", Shards: 8})
		w.untilSettled("a", "b", "c")
		configured = []ack.ServiceSpec{{Name: "default", Shards: shards}, {Name: "chat", Shards: 8}}
		for _, process := range w.all {
			process.stop()
		}
		for id, process := range w.all {
			w.until("node "+id+" has ended", process.ended)
		}
		for _, process := range w.all {
			process.run()
		}
		w.untilSettled("a", "b", "c")
	})
}

// The leader compares the number of shards of a new service with its own configuration, and with those that other nodes
// have reported.
func TestServiceWithOtherNumberOfShardsIsNotAdded(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		leader := w.leader()
		leader.node.API().ApplySettings(map[string]string{"services.shards": "default 96"})
		w.follower().node.API().ApplySettings(map[string]string{"services.shards": "chat 8, default 96"})
		w.untilFindingsAre(leader, "config-differs: setting services.shards differs")
		refused := func(shards uint32, want string) func() bool {
			return func() bool {
				err := leader.node.API().Do(w.t.Context(), api.Action{Verb: api.AddService, Service: "chat", Shards: shards})
				return err != nil && strings.Contains(err.Error(), want)
			}
		}
		name := w.follower().name
		w.until("the number of a follower counts", refused(4, "shards = 4, but the configuration of node "+name+" has services.chat.shards = 8"))
		leader.node.ApplyKeys(`{"services":{"chat":{"routes":["/"],"shards":16,"key":["ip"],"on_missing_key":"reject"}}}`)
		w.until("the number of the leader counts", refused(8, "shards = 8, but the configuration of node "+leader.name+" has services.chat.shards = 16"))
		if _, exists := leader.node.State().Service("chat"); exists || w.committed().Len() != shards {
			w.t.Error("the service was added")
		}
	})
}
