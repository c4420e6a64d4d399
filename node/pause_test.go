package node_test

import (
	"testing"
	"time"

	"shardway/ack"
	"shardway/admin/api"
	"shardway/node"
	"shardway/shardmap"
)

// pausing starts a, b and c in rebalance mode stop-the-world, and runs f.
func pausing(t *testing.T, f func(w *world)) {
	t.Helper()
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) { o.Timing.RebalanceMode = ack.RebalanceStopTheWorld }
		for _, n := range []string{"a", "b", "c"} {
			w.start(n)
		}
		w.untilSettled("a", "b", "c")
		w.untilVoters(3)
		f(w)
	})
}

// admits reports whether the node would admit a request for any shard.
func (p *process) admits() bool {
	for s := range shardmap.Shard(shards) {
		if _, ok := p.node.Admits(s); ok {
			return true
		}
	}
	return false
}

// A node whose log is late admits no requests before it has the new leader's proposal. Once, it got its lease from the new leader first,
// and started requests by the map of the previous one.
func TestStopTheWorldHoldsUntilTheNewLeadersMapIsThere(t *testing.T) {
	pausing(t, func(w *world) {
		old, term := w.leader(), w.leader().node.API().Status().Term
		p := w.follower()
		p.log.close()
		defer p.log.open()
		if err := old.node.API().Do(w.t.Context(), api.Action{Verb: api.StepDown}); err != nil {
			w.t.Fatalf("Do(step-down) = %v, want nil", err)
		}
		w.until("another leads", func() bool { l := w.leader(); return l != nil && l.node.API().Status().Term > term })
		time.Sleep(600 * time.Millisecond) // the leases of the old leader have expired
		w.until("it has a lease of the new leader", p.node.Leased)
		for range 200 {
			w.moment()
			if p.admits() {
				w.t.Fatalf("%s admits requests before the new leader's map is committed there", p.name)
			}
		}
		p.log.open()
		w.until("it admits again", p.admits)
	})
}

// A gateway has no lease to lose: it continues to route, and the owners queue the requests.
func TestGatewayRoutesUnderStopTheWorld(t *testing.T) {
	pausing(t, func(w *world) {
		w.tune = func(o *node.Options) {
			o.Gateway, o.CheckApp, o.Proxy.DialUpstream = true, nil, nil
		}
		w.start("g")
		g := w.all["g"]
		<-g.node.Started()
		w.until("the gateway routes", g.node.Routes)
	})
}
