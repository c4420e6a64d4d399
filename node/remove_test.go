package node_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shardway/admin/api"
	"shardway/node"
)

// listed returns the entry of a node in the list of the node at, or an empty one.
func (w *world) listed(at *process, node string) api.Node {
	for _, n := range at.node.API().Status().Nodes {
		if n.ID == node {
			return n
		}
	}
	return api.Node{}
}

// unlisted waits until no node lists the node any more.
func (w *world) unlisted(node string) {
	w.t.Helper()
	w.until("nobody lists "+node, func() bool {
		for _, p := range w.running() {
			if w.listed(p, node).ID != "" {
				return false
			}
		}
		return true
	})
}

// A node that was stopped in order is listed as left until gossip forgets it, an hour later. Once, remove returned `unknown node "d":
// shardway nodes lists them`, although the list contained it.
func TestRemoveTakesAStoppedNodeOut(t *testing.T) {
	three(t, func(w *world) {
		w.start("d")
		w.untilSettled("a", "b", "c", "d")
		d := w.all["d"]
		if d.node.Leads() {
			d = w.follower()
		}
		d.terminate()
		w.untilSettled(w.others(d)...)
		w.until("it is shown as left", func() bool { return w.listed(w.leader(), d.name).State == "left" })
		if got := w.listed(w.leader(), d.name).App; got != "unknown" {
			w.t.Errorf("the app of a node that has left is %s", got)
		}
		remove := api.Action{Verb: api.Remove, Node: d.name}
		w.asks(w.follower(), remove)
		w.unlisted(d.name)
		time.Sleep(time.Minute)
		w.unlisted(d.name)
		if err := w.leader().node.API().Do(w.t.Context(), remove); !errors.Is(err, api.ErrUnknownNode) {
			w.t.Errorf("removed twice: %v, want that it is unknown", err)
		}
	})
}

// A node that was killed and removed is not listed. Once, it stayed in the list as "failed ... healthy".
func TestRemoveTakesAKilledNodeOutOfTheList(t *testing.T) {
	three(t, func(w *world) {
		w.start("d")
		w.untilSettled("a", "b", "c", "d")
		w.untilVoters(4)
		d := w.all["d"]
		if d.node.Leads() {
			d = w.follower()
		}
		rest := w.others(d)
		d.kill()
		w.untilSettled(rest...)
		for _, p := range w.running() {
			if n := w.listed(p, d.name); n.State != "failed" || n.App != "unknown" {
				w.t.Errorf("%s shows the dead node as %s, its app %s", p.name, n.State, n.App)
			}
		}
		w.asks(w.leader(), api.Action{Verb: api.Remove, Node: d.name})
		w.unlisted(d.name)
		time.Sleep(time.Minute)
		w.unlisted(d.name)
	})
}

// A node whose app does not respond is out of the map and not joining. Once, "joining" made operators look for a network problem that did
// not exist.
func TestNodeWithASickAppIsNotJoining(t *testing.T) {
	bubble(t, func(w *world) {
		var sick atomic.Bool
		w.tune = func(o *node.Options) {
			o.CheckApp = func(context.Context) error {
				if o.Dir.Node() == "b" && sick.Load() {
					return errors.New("no")
				}
				return nil
			}
		}
		w.start("a")
		w.start("b")
		w.start("c")
		w.untilSettled("a", "b", "c")
		sick.Store(true)
		b := w.all["b"]
		for _, at := range []*process{w.all["a"], b} {
			w.until(at.name+" says so", func() bool {
				n := w.listed(at, "b")
				return n.State == "unhealthy" && n.App == "unhealthy"
			})
		}
		if got := b.node.API().Status().State; got != "unhealthy" {
			w.t.Errorf("b says of itself that it is %s", got)
		}
		sick.Store(false)
		w.untilSettled("a", "b", "c")
		w.until("b is active", func() bool { return w.listed(b, "b").State == "active" })
	})
}

// A dead node owns its shards while no other node can own them. Without force, its removal is refused with that reason. With force, the
// operator vouches that the node and its app are gone.
func TestRemoveOfAnOwnerWantsForce(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		for _, name := range []string{"a", "b", "c", "d"} {
			w.start(name)
		}
		w.untilSettled("a", "b", "c", "d")
		w.untilVoters(4)
		d := w.all["d"]
		if d.node.Leads() {
			w.asks(d, api.Action{Verb: api.StepDown})
			w.until("another one leads", func() bool { return w.leader() != nil && w.leader() != d })
		}
		for _, name := range []string{"a", "b", "c"} {
			w.does(w.leader(), api.Action{Verb: api.Drain, Node: name, Force: true})
		}
		w.until("d owns all shards", func() bool {
			s := w.leader().node.State()
			return !s.HasOpenProposal() && s.Committed().ShardCount("d") == shards
		})
		d.kill()
		remove := api.Action{Verb: api.Remove, Node: "d"}
		w.until("it counts as gone", func() bool {
			err := w.leader().node.API().Do(w.t.Context(), remove)
			if err == nil {
				w.t.Fatal("an owner was removed without force")
			}
			return strings.Contains(err.Error(), fmt.Sprintf("still owns %d shards", shards))
		})
		remove.Force = true
		w.asks(w.leader(), remove)
		w.untilServers("a", "b", "c")
		for _, name := range []string{"a", "b", "c"} {
			w.does(w.leader(), api.Action{Verb: api.Uncordon, Node: name})
		}
		w.untilSettled("a", "b", "c")
	})
}
