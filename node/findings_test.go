package node_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shardway/admin/api"
	"shardway/diagnosis"
	"shardway/node"
	"shardway/proxy/route"
)

// untilFindingsAre waits until one finding of a node contains all the texts. Without texts, it waits until the node has no finding worse
// than info.
func (w *world) untilFindingsAre(p *process, texts ...string) {
	w.t.Helper()
	w.until(p.name+" says "+strings.Join(texts, " … "), func() bool {
		if len(texts) == 0 {
			return diagnosis.Worst(p.node.Findings()) <= diagnosis.Info
		}
		for _, f := range p.node.Findings() {
			if !strings.Contains(f.String(), texts[0]) {
				continue
			}
			rest := texts[1:]
			for len(rest) > 0 && strings.Contains(f.String(), rest[0]) {
				rest = rest[1:]
			}
			if len(rest) == 0 {
				return true
			}
		}
		return false
	})
}

// Once, with two of three nodes killed, the remaining node reported 341 of 1024 shards here and 0 orphaned, and listed owners as if they
// served.
func TestEveryNodeReportsLostQuorumAlike(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		a := w.all["a"]
		w.all["b"].kill()
		w.all["c"].kill()
		killed := time.Now()
		const sentence = "no-quorum: 1 of 3 voters is present and 2 are required, so there is no leader: b and c are missing"
		w.untilFindingsAre(a, sentence, "start b and c", "shardway recover")
		w.t.Logf("told %v after the kill", time.Since(killed))
		w.untilFindingsAre(a, "unavailable: no node serves any of the 96 shards")
		st := a.node.API().Status()
		if st.State == "operational" || st.Shards.Unavailable != shards || diagnosis.Worst(st.Findings) != diagnosis.Outage {
			w.t.Errorf("state %q, %+v, %+v", st.State, st.Shards, st.Findings)
		}
		for _, row := range a.node.API().Shards().Shards {
			if row.Unavailable == "" || a.node.API().Idle(row.Owner) == "" {
				w.t.Fatalf("shard %d is %s of %s, as if that served", row.Shard, row.State, row.Owner)
			}
		}
		if err := a.node.API().Ready(); err == nil || !strings.Contains(err.Error(), sentence) || strings.Contains(api.Brief(err), "b and c") {
			w.t.Errorf("ready: %v, in brief %q", err, api.Brief(err))
		}
		if e := a.node.Explain(route.ReasonNoLease); e.Finding != sentence || e.HasLeader {
			w.t.Errorf("clients are told %+v", e)
		}
		w.all["b"].restart()
		w.untilFindingsAre(a, "no-fault-tolerance: 2 of 3 voters are present (a and b) and 2 are required")
		w.until("what is left is served", func() bool { return a.node.API().Status().Shards.Unavailable == 0 && a.node.API().Idle("a") == "" })
		w.all["c"].restart()
		w.untilFindingsAre(a)
	})
}

// A gateway has no lease to lose. Once, it stayed ready for load balancers when no node served.
func TestGatewayWithoutOwnersIsNotReady(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.tune = func(o *node.Options) { o.Gateway, o.CheckApp, o.Proxy.DialUpstream = true, nil, nil }
		w.start("g")
		g := w.all["g"]
		<-g.node.Started()
		w.untilVoters(4)
		w.until("the gateway is ready", func() bool { return g.node.API().Ready() == nil })
		for _, name := range []string{"a", "b", "c"} {
			w.all[name].kill()
		}
		w.until("it is not any more", func() bool {
			err := g.node.API().Ready()
			return err != nil && strings.Contains(err.Error(), "no-quorum: 1 of 4 voters is present and 3 are required")
		})
		w.all["a"].restart()
		w.all["b"].restart()
		w.until("it is again", func() bool { return g.node.API().Ready() == nil })
	})
}

// A node that has lost the leader uses neither the leader's last answer nor gossip, which needs seconds to notice a failure.
func TestLossOfTheLeaderIsReportedSoon(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		a := w.follower()
		rest := w.others(a)
		time.Sleep(5 * time.Second) // the leader has reported all nodes
		for _, name := range rest {
			w.all[name].kill()
		}
		killed := time.Now()
		w.untilFindingsAre(a, "no-quorum: 1 of 3 voters is present and 2 are required, so there is no leader: "+strings.Join(rest, " and ")+" are missing")
		if told := time.Since(killed); told > 4*time.Second {
			w.t.Errorf("told %v after the kill", told)
		}
	})
}

// A node that waits for others names them, and a node that reaches no other node lists the addresses that it has tried.
func TestBootstrapReportsWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) { o.BootstrapExpect = 3 }
		w.start("a")
		a := w.all["a"]
		<-a.node.Started()
		w.untilFindingsAre(a, "bootstrapping: 1 of the 3 nodes that must start the cluster is here (a)", "--bootstrap-expect 3")
		if err := a.node.API().Ready(); err == nil || !strings.Contains(err.Error(), "1 of the 3 nodes") {
			w.t.Errorf("ready: %v", err)
		}
		if e := a.node.Explain(route.ReasonNoMap); !strings.HasPrefix(e.Finding, "bootstrapping: 1 of the 3") {
			w.t.Errorf("clients are told %+v", e)
		}
		w.start("b")
		w.untilFindingsAre(a, "bootstrapping: 2 of the 3 nodes that must start the cluster are here (a and b)")
		w.start("c")
		w.untilSettled("a", "b", "c")
		w.untilFindingsAre(a)
		w.all["b"].kill()
		w.all["c"].kill()
		a.terminate()
		a.restart()
		<-a.node.Started()
		w.untilFindingsAre(a, "no-peers: node a has reached no other node: ", w.all["b"].host.Addr(7946), "refused")
		if e := a.node.Explain(route.ReasonNoMap); strings.Contains(e.Finding, "7946") {
			w.t.Errorf("clients are told addresses: %+v", e)
		}
	})
}

// Every node reports the health of all apps.
func TestEveryNodeReportsUnhealthyApps(t *testing.T) {
	t.Parallel()
	sick := map[string]*atomic.Bool{"a": {}, "b": {}, "c": {}}
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) {
			bad := sick[o.Dir.Node()]
			o.CheckApp = func(context.Context) error {
				if bad != nil && bad.Load() {
					return errors.New("the app is ill")
				}
				return nil
			}
		}
		for _, id := range []string{"a", "b", "c"} {
			w.start(id)
		}
		w.untilSettled("a", "b", "c")
		sick["b"].Store(true)
		for _, p := range w.running() {
			w.untilFindingsAre(p, "app-unhealthy: the app", "b")
		}
		w.untilFindingsAre(w.all["b"], "app-unhealthy: the app does not answer: b (the app is ill)")
		sick["a"].Store(true)
		sick["c"].Store(true)
		for _, p := range w.running() {
			w.untilFindingsAre(p, "no-healthy-app: no node has an app that responds: ")
			if e := p.node.Explain(route.ReasonUnreachable); !strings.HasPrefix(e.Finding, "no-healthy-app: ") || strings.Contains(e.Finding, "ill") || !e.HasLeader || e.Hopeless {
				w.t.Errorf("clients of %s are told %+v", p.name, e)
			}
		}
		for _, s := range sick {
			s.Store(false)
		}
		w.untilSettled("a", "b", "c")
		w.untilFindingsAre(w.all["a"])
	})
}

// A cluster of gateways reports that no node has an app, and queues no requests.
func TestGatewaysAloneReportThatNoNodeHasAnApp(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) { o.Gateway, o.CheckApp, o.Proxy.DialUpstream = true, nil, nil }
		w.start("a")
		a := w.all["a"]
		<-a.node.Started()
		w.untilFindingsAre(a, "no-healthy-app: no node has an app (a)", "--upstream")
		w.untilFindingsAre(a, "no-app: node a is a gateway, because --upstream is missing")
		if e := a.node.Explain(route.ReasonNoMap); !e.Hopeless || !strings.HasPrefix(e.Finding, "no-healthy-app: ") {
			w.t.Errorf("clients are told %+v", e)
		}
	})
}

// A new leader that is a gateway has received no heartbeats yet. It reports no missing nodes: the nodes with an app may be about to send
// one.
func TestNewGatewayLeaderWaitsForHeartbeats(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) {
			if o.Dir.Node() == "a" {
				o.Gateway, o.CheckApp, o.Proxy.DialUpstream = true, nil, nil
			}
		}
		for _, id := range []string{"a", "b", "c"} {
			w.start(id)
		}
		a, led := w.all["a"], 0
		for range 6 {
			w.untilSettled("b", "c")
			w.untilVoters(3)
			w.all["b"].kill()
			w.all["c"].kill()
			time.Sleep(20 * time.Second)
			w.all["b"].restart()
			w.all["c"].restart()
			leads := false
			w.until("they serve again", func() bool {
				if a.node.Explain(route.ReasonNoMap).Hopeless {
					w.t.Error("clients are let go, though who has an app is back")
				}
				leads = leads || w.leader() == a
				return w.settled("b", "c")
			})
			if leads {
				led++
			}
		}
		if led == 0 {
			w.t.Error("it never came to lead")
		}
	})
}

// Every node reports what operators have requested, for as long as it is in effect.
func TestOperatorRequestsAreReported(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		a := w.all["a"]
		w.asks(a, api.Action{Verb: api.Pause, For: "30m"})
		w.asks(a, api.Action{Verb: api.Cordon, Node: "c"})
		w.untilFindingsAre(a, "paused: planned moves of shards are paused for 30m", "shardway resume")
		w.untilFindingsAre(a, "cordoned: c is cordoned")
		w.asks(a, api.Action{Verb: api.Resume})
		w.asks(a, api.Action{Verb: api.Uncordon, Node: "c"})
		w.until("all is well", func() bool { return len(a.node.Findings()) == 0 })
	})
}

func TestTwoVotersAreReported(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.start("a")
		w.start("b")
		w.untilSettled("a", "b")
		w.untilFindingsAre(w.all["b"], "even-voters: two voters (a and b): the loss of either stops the cluster", "witness")
	})
}

// Stalled and slow disks are reported.
func TestDisksAreReported(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		p := w.follower()
		p.disk.hang()
		w.asks(w.leader(), api.Action{Verb: api.Cordon, Node: p.name}) // a request that is written to the log
		w.untilFindingsAre(p, "disk-stalled: a write to the disk of node "+p.name+" is stalled")
		p.disk.well()
		w.untilFindingsAre(p, "disk-slow: a write to the disk of node "+p.name+" took ")
		w.untilFindingsAre(p)
	})
}

// A checkup contains the report of every node, and names the ports that a node cannot reach.
func TestCheckupAsksEveryNode(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		var c diagnosis.Checkup
		w.during(func() { c = w.all["a"].node.API().Checkups.Checkup(w.t.Context(), true) })
		if c.From != "a" || len(c.Reports) != 3 || len(c.Unresponsive) != 0 || c.AskedNS > c.AnsweredNS {
			w.t.Fatalf("%+v", c)
		}
		epoch := uint64(w.committed().Epoch())
		for i, id := range []string{"a", "b", "c"} {
			r := c.Reports[i]
			if r.Node != id || r.Version != "test" || r.Leader != w.leader().name || r.Epoch != epoch || r.Timing != r.Flags || r.Timing == "" {
				w.t.Errorf("%+v", r)
			}
			for _, u := range r.UnreachablePorts {
				if u.Port == "peer" || u.Node == id {
					w.t.Errorf("%s does not reach %+v", id, u)
				}
			}
		}
	})
}

// Every user with read access can request checkups, and each one makes every node dial every port. All requests within a second share one
// checkup, and a client that leaves early starts no further one.
func TestCheckupsAreShared(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		n := w.all["a"].node
		ctx := w.t.Context()
		gone, leave := context.WithCancel(ctx)
		leave()
		var all [20]diagnosis.Checkup
		w.during(func() {
			n.API().Checkups.Checkup(gone, true)
			var asking sync.WaitGroup
			for i := range all {
				asking.Go(func() { all[i] = n.API().Checkups.Checkup(ctx, true) })
			}
			asking.Wait()
		})
		for _, c := range all {
			if c.AnsweredNS != all[0].AnsweredNS || len(c.Reports) != 3 {
				w.t.Fatalf("%+v, and %+v", c, all[0])
			}
		}
		all[0].Reports[0].Findings, all[0].Reports[0].Node = nil, "mine"
		var later diagnosis.Checkup
		w.during(func() {
			time.Sleep(2 * time.Second)
			later = n.API().Checkups.Checkup(ctx, true)
		})
		if later.AskedNS <= all[0].AnsweredNS || all[1].Reports[0].Node != "a" {
			w.t.Errorf("%+v after %+v", later, all[0])
		}
	})
}

// A node that has just started has received no heartbeats; it reports no loss of other nodes. Once, every restarted node reported the loss
// of all others as a warning for a second.
func TestStartingNodeReportsNoMissingNode(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		p := w.follower()
		p.kill()
		p.restart()
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			for _, f := range p.node.Findings() {
				if f.Code == diagnosis.NoFaultTolerance || f.Code == diagnosis.NoQuorum {
					w.t.Fatalf("a node that begins says %s", f)
				}
			}
		}
		for name, q := range w.all {
			if q != p && q != w.leader() {
				q.kill()
				w.untilFindingsAre(p, "no-fault-tolerance: 2 of 3 voters are present", name+" is missing")
			}
		}
	})
}
