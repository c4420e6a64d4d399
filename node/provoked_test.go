package node_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shardway/admin/api"
	"shardway/diagnosis"
	"shardway/node"
	"shardway/queue"
	"shardway/shardmap"
)

// A node whose request queue is full reports the number of rejected requests.
func TestFullQueueIsReported(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) { o.Queue = queue.Options{Requests: 2, Wait: queueWait} }
		for _, id := range []string{"a", "b", "c"} {
			w.start(id)
		}
		w.untilSettled("a", "b", "c")
		w.untilVoters(3)
		a := w.all["a"]
		w.all["b"].kill()
		w.all["c"].kill()
		w.until("nobody serves", func() bool { return !a.node.Leased() })
		for range 6 {
			ask(w, a, "a", "/")
		}
		w.untilFindingsAre(a, "queue-full: node a refused requests lately because too many wait: 5 refused, 1 waiting", "--queue-requests")
		w.all["b"].restart()
		w.all["c"].restart()
		w.untilFindingsAre(a)
	})
}

// A process that was stopped reports for how long, and clears the finding after a minute.
func TestPausedProcessIsReported(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) {
			w.all[o.Dir.Node()].runsBy(o, newClock(1))
		}
		for _, id := range []string{"a", "b", "c"} {
			w.start(id)
		}
		w.untilSettled("a", "b", "c")
		w.untilVoters(3)
		p := w.follower()
		p.freeze()
		time.Sleep(3200 * time.Millisecond)
		p.thaw()
		w.untilFindingsAre(p, "clock-jump: node "+p.name+" did not run for 3.2s, or its clock jumped, and a lease is 500ms")
		w.untilSettled("a", "b", "c")
		w.untilFindingsAre(p)
	})
}

// While the shards of a restarting node wait for it, the other nodes report that.
func TestRestartInPlaceIsReported(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) { o.HoldGrace = 8 * time.Second }
		for _, id := range []string{"a", "b", "c"} {
			w.start(id)
		}
		w.untilSettled("a", "b", "c")
		w.untilVoters(3)
		p := w.follower()
		p.terminate()
		for _, r := range w.running() {
			w.untilFindingsAre(r, "restarting: node "+p.name+" restarts in place: its 32 shards wait for it, for up to 8s", "remove --force "+p.name)
		}
		p.restart()
		w.untilSettled("a", "b", "c")
		for _, r := range w.running() {
			w.until("it is back", func() bool { return len(r.node.Findings()) == 0 })
		}
	})
}

// A node whose log is behind the newest map is reported, also by other nodes, with both maps. A comparison of the nodes' reports finds the
// same.
func TestLogThatIsBehindIsReported(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		p := w.follower()
		var first, second diagnosis.Checkup
		p.log.close()
		w.asks(w.leader(), api.Action{Verb: api.Pin, Shard: shardOf(w.committed(), p.name), Node: w.leader().name})
		const says = " is behind: it has the shard map of epoch "
		w.untilFindingsAre(w.leader(), "lagging: node "+p.name+says, ", and the cluster is at epoch ")
		first = w.leader().node.API().Checkups.Checkup(w.t.Context(), false)
		time.Sleep(2 * time.Second)
		second = w.leader().node.API().Checkups.Checkup(w.t.Context(), false)
		w.finds(first, second, "maps-differ: node "+p.name+" uses the map of epoch ", " was committed at least 2s ago")
		p.log.open()
		w.untilSettled("a", "b", "c")
		w.untilFindingsAre(w.leader())
	})
}

// shardOf returns a shard of a node.
func shardOf(m *shardmap.Map, node string) uint32 {
	for s := range shardmap.Shard(shards) {
		if m.Owner(s) == shardmap.NodeID(node) {
			return uint32(s)
		}
	}
	panic(node + " owns none")
}

// finds fails the test unless two checkups lead to a finding with these texts, in their order.
func (w *world) finds(first, second diagnosis.Checkup, texts ...string) {
	w.t.Helper()
	all := diagnosis.Compare(first, second, nil)
next:
	for _, f := range all {
		rest := f.String()
		for _, text := range texts {
			_, after, found := strings.Cut(rest, text)
			if !found {
				continue next
			}
			rest = after
		}
		return
	}
	w.t.Errorf("the checkups come to %v, want %q", all, texts)
}

// A new node whose app does not respond reports that it is not in the map, until it is.
func TestNewNodeWithoutAnAppIsReported(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		var well atomic.Bool
		w.tune = func(o *node.Options) {
			o.CheckApp = func(context.Context) error {
				if !well.Load() {
					return errors.New("connection refused")
				}
				return nil
			}
		}
		w.start("d")
		d := w.all["d"]
		<-d.node.Started()
		w.untilFindingsAre(d, "joining: node d is not in the shard map yet", "until its app responds")
		w.untilFindingsAre(d, "app-unhealthy: the app does not answer: d (connection refused)")
		well.Store(true)
		w.untilSettled("a", "b", "c", "d")
		w.until("it is in the map", func() bool { return !d.warns("joining") })
	})
}

// warns reports whether the node has a finding with this text.
func (p *process) warns(text string) bool {
	return slices.ContainsFunc(p.node.Findings(), func(f diagnosis.Finding) bool { return strings.Contains(f.String(), text) })
}

// A process with the id of a running node learns the address of that node from the others, reports it, and ends.
func TestProcessWithATakenIDIsReported(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		p := w.follower()
		mem, err := p.mem.Copy()
		if err != nil {
			w.t.Fatal(err)
		}
		c := &process{w: w, name: p.name, host: w.net.Host(p.name + "2"), mem: mem}
		c.run()
		defer c.kill()
		w.untilFindingsAre(c, "duplicate-node: another process has the id of node "+p.name+", at "+p.host.Addr(7947))
	})
}

// The tags that a node announces have limited space, and the node reports that before the space is used up.
func TestLittleRoomForTagsIsReported(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.tune = func(o *node.Options) {
			o.Zone, o.AppVersion = strings.Repeat("z", 64), strings.Repeat("v", 64)
			o.Roles, o.Meta = []string{"app"}, map[string]string{"rack": "r7"}
			o.Endpoints["metrics"] = strings.Repeat("m", 63) + "." + strings.Repeat("m", 63) + ".example:9100"
		}
		w.start("d")
		w.untilSettled("a", "b", "c", "d")
		w.untilFindingsAre(w.all["d"], "tags-nearly-full: the gossip tags of node d use ", " of 512 bytes", "--endpoint")
	})
}

// A checkup finds what a single node cannot see: different versions and settings, a clock that drifts, a closed port, and a node that does
// not respond.
func TestCheckupFindsWhatNodesDifferIn(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) {
			p := w.all[o.Dir.Node()]
			p.runsBy(o, newClock(1))
			if p.name == "c" {
				p.runsBy(o, newClock(0.95))
				o.Version, o.Timing.Lease, o.Timing.DeadAfter = "older", time.Second, 5*time.Second
				o.Endpoints["http"] = p.host.Addr(8099)
			}
		}
		for _, id := range []string{"a", "b", "c"} {
			w.start(id)
		}
		w.untilSettled("a", "b", "c")
		w.untilVoters(3)
		var first, second, third diagnosis.Checkup
		a := w.all["a"].node
		ctx := w.t.Context()
		w.during(func() {
			first = a.API().Checkups.Checkup(ctx, false)
			time.Sleep(3 * time.Second)
			second = a.API().Checkups.Checkup(ctx, true)
		})
		w.finds(first, second, "mixed-versions: the nodes run different versions: a and b run test, c runs older")
		w.finds(first, second, "settings-differ: node c was started with lease 1s", "and the cluster uses lease 500ms")
		w.finds(first, second, "clock-drift: the clock of node c runs at least 4.", " % slower than that of node a")
		w.finds(first, second, "unreachable: the http port of node c at "+w.all["c"].host.Addr(8099)+" is not reachable from node a and node b: ")
		w.all["c"].freeze()
		third = a.API().Checkups.Checkup(ctx, false)
		w.finds(second, third, "unresponsive: c did not respond to node a at its peer port")
		w.all["c"].thaw()
	})
}

// A node that has not received the result of an election yet follows another leader than the others.
func TestCheckupFindsThatLeadersDiffer(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		for _, id := range []string{"a", "b", "c", "d", "e"} {
			w.start(id)
		}
		w.untilSettled("a", "b", "c", "d", "e")
		w.untilVoters(5)
		old := w.leader()
		rest := w.others(old)
		p := w.all[rest[len(rest)-1]] // the last candidate for a handover of leadership
		for _, id := range w.others(p) {
			if id != old.name {
				w.net.Cut(id, p.name) // no new leader reaches it
			}
		}
		w.asks(old, api.Action{Verb: api.StepDown})
		w.until("the others follow somebody else", func() bool {
			for _, id := range w.others(p) {
				if l := w.all[id].node.API().Status().Leader; l == "" || l == old.name {
					return false
				}
			}
			return true
		})
		c := old.node.API().Checkups.Checkup(w.t.Context(), false)
		w.finds(c, c, "leaders-differ: the nodes follow different leaders: ", p.name+" follows "+old.name)
		w.net.Heal()
	})
}
