package node_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"shardway/admin/api"
	"shardway/diagnosis"
	"shardway/shardmap"
)

// A process that receives a local drain request owns no shards, but votes and runs on. The cluster does not store the request: the next
// process of the node owns shards again.
func TestLocalDrainEndsWithItsProcess(t *testing.T) {
	t.Parallel()
	for _, leads := range []bool{false, true} {
		three(t, func(w *world) {
			w.untilVoters(3)
			p := w.voter(leads)
			rest := w.others(p)
			if d := p.node.API().SelfState(); d.Requested || d.Shards == 0 {
				w.t.Errorf("before it was asked: %+v", d)
			}
			if d := p.node.API().DrainSelf(); !d.Requested || d.Warning != "" || d.BlockedBy != "" {
				w.t.Errorf("DrainSelf() = %+v, want no warning: two of three voters are left", d)
			}
			w.untilSettled(rest...)
			w.until("nothing is left", func() bool { return !p.node.API().SelfState().Left() })
			// Once, a caller at the admin port of the drained node waited for this state forever.
			if d, err := p.node.API().DrainState(w.t.Context(), p.name); err != nil || !d.Requested || d.Left() {
				w.t.Errorf("DrainState of itself = %+v, %v, want asked and nothing left", d, err)
			}
			// Once, a caller at another node waited forever as well, because the cluster does not store the request.
			if d, err := w.all[rest[0]].node.API().DrainState(w.t.Context(), p.name); err != nil || !d.Requested || d.Left() {
				w.t.Errorf("DrainState asked of another = %+v, %v, want asked and nothing left", d, err)
			}
			if d, err := p.node.API().DrainState(w.t.Context(), rest[0]); err != nil || d.Requested {
				w.t.Errorf("DrainState of another = %+v, %v, want not asked", d, err)
			}
			if asked := p.node.API().Policy().Drained; len(asked) > 0 {
				w.t.Errorf("the cluster keeps the drain of %v", asked)
			}
			w.untilVoters(3)
			if d := w.all[rest[0]].node.API().DrainSelf(); !strings.Contains(d.Warning, "1 of 3 voters remain and 2 are required ("+p.name+" is leaving)") {
				w.t.Errorf("the second that leaves is warned %q", d.Warning)
			}
			w.untilSettled(rest[1])
			if d := w.all[rest[1]].node.API().DrainSelf(); d.BlockedBy != "" && d.BlockedBy != "no other node can own them" {
				w.t.Errorf("the last that leaves: %+v", d)
			}
			w.until("the last is told that its shards stay", func() bool {
				d := w.all[rest[1]].node.API().SelfState()
				return d.BlockedBy == "no other node can own them" && d.Shards == shards
			})
			p.terminate()
			p.restart()
			w.untilSettled(p.name)
		})
	}
}

// A process that leaves is out of the map and without a lease as planned: neither is a finding.
func TestLeavingNodeReportsNeitherMissingMapNorLease(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		p := w.follower()
		p.node.API().DrainSelf()
		w.untilSettled(w.others(p)...)
		w.untilFindingsAre(p, string(diagnosis.Draining))
		silent := func(what string) {
			for range 40 {
				time.Sleep(250 * time.Millisecond) // virtual time
				for _, f := range p.node.Findings() {
					if f.Code == diagnosis.Joining || f.Code == diagnosis.NoLease {
						w.t.Fatalf("%s: %v", what, f)
					}
				}
			}
		}
		silent("out of the map")
		p.node.SendLeaveNotice()
		w.until("it has no lease", func() bool { return !p.node.Leased() })
		silent("without a lease")
	})
}

// Every node reports the drain state of another node, and asks that node what still runs there.
func TestEveryNodeReportsDrainState(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		p := w.follower()
		other := w.all[w.others(p)[0]]
		if d, err := other.node.API().DrainState(w.t.Context(), p.name); err != nil || d.Requested || d.Shards == 0 || d.Requests < 0 || d.Sockets < 0 {
			w.t.Errorf("before it was asked: %+v, %v", d, err)
		}
		w.asks(other, api.Action{Verb: api.Drain, Node: p.name})
		w.untilSettled(w.others(p)...)
		for _, at := range w.running() {
			w.until("nothing is left, as "+at.name+" says", func() bool {
				d, err := at.node.API().DrainState(w.t.Context(), p.name)
				return err == nil && d.Requested && !d.Left() && d.Requests == 0
			})
		}
		if _, err := other.node.API().DrainState(w.t.Context(), "ghost"); !errors.Is(err, api.ErrUnknownNode) {
			w.t.Errorf("of a node that is unknown: %v", err)
		}
		p.kill()
		w.until("what runs at a dead node is not known", func() bool {
			d, err := other.node.API().DrainState(w.t.Context(), p.name)
			return err == nil && d.Requests == -1 && d.Sockets == -1 && !d.Left()
		})
	})
}

// The node that is asked cannot reach the drained node, which is alive: its requests may still run. So the
// drain is not over before the drained node responds, or has died.
func TestDrainStateOfUnreachableNodeIsUnconfirmed(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		p := w.follower()
		var other *process
		for _, name := range w.others(p) {
			if w.all[name] != w.leader() {
				other = w.all[name]
			}
		}
		w.asks(w.leader(), api.Action{Verb: api.Drain, Node: p.name})
		w.untilSettled(w.others(p)...)
		w.net.Reset(p.name, other.name)
		w.until("the drained node does not respond", func() bool {
			d, err := other.node.API().DrainState(w.t.Context(), p.name)
			return err == nil && d.Requests == -1
		})
		d, err := other.node.API().DrainState(w.t.Context(), p.name)
		if err != nil || d.Shards != 0 || d.Requests != -1 || !d.Left() || d.WaitsFor != "the node is alive but does not report its requests" {
			w.t.Errorf("DrainState of a node that only the leader reaches = %+v, %v, want that it may still run requests", d, err)
		}
		p.kill()
		w.until("the drain ends when the node has died", func() bool {
			d, err := other.node.API().DrainState(w.t.Context(), p.name)
			return err == nil && d.Requests == -1 && !d.Left()
		})
	})
}

// A drain of the last node that may own shards never ends. Every node reports the reason, also when the drained node does not answer.
func TestEveryNodeReportsWhyDrainIsBlocked(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		p := w.follower()
		rest := w.others(p)
		for _, name := range rest {
			w.asks(p, api.Action{Verb: api.Drain, Node: name, Force: true})
			w.until("node "+name+" owns nothing", func() bool {
				d, err := p.node.API().DrainState(w.t.Context(), name)
				return err == nil && !d.Left()
			})
		}
		if d, err := w.all[rest[0]].node.API().DrainState(w.t.Context(), p.name); err != nil || d.Requested || d.BlockedBy != "" {
			w.t.Errorf("before it was asked: %+v, %v, want no reason", d, err)
		}
		w.asks(p, api.Action{Verb: api.Drain, Node: p.name, Force: true})
		for _, at := range w.running() {
			w.until("node "+at.name+" reports why the shards stay", func() bool {
				d, err := at.node.API().DrainState(w.t.Context(), p.name)
				return err == nil && d.Requested && d.Shards == shards && d.BlockedBy == "no other node can own them"
			})
		}
		p.kill()
		for _, name := range rest {
			w.until("node "+name+" reports it of a node that does not answer", func() bool {
				d, err := w.all[name].node.API().DrainState(w.t.Context(), p.name)
				return err == nil && d.Shards == shards && d.Requests == -1 && d.BlockedBy == "no other node can own them"
			})
		}
	})
}

// A drain that waits for a running request names the node whose acknowledgement it waits for.
func TestDrainStateReportsWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		p := w.follower()
		var end func()
		for s := range shardmap.Shard(shards) {
			if release, ok := p.node.Run1(s); ok {
				end = release
				break
			}
		}
		w.asks(w.leader(), api.Action{Verb: api.Drain, Node: p.name})
		for _, at := range w.running() {
			w.until("node "+at.name+" reports what is waited for", func() bool {
				d, err := at.node.API().DrainState(w.t.Context(), p.name)
				return err == nil && strings.HasPrefix(d.WaitsFor, "epoch ") && strings.HasSuffix(d.WaitsFor, " is not acknowledged by node "+p.name)
			})
		}
		end()
		w.until("nothing is left", func() bool {
			d, err := w.leader().node.API().DrainState(w.t.Context(), p.name)
			return err == nil && !d.Left() && d.WaitsFor == ""
		})
	})
}
