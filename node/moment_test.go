package node_test

import (
	"fmt"
	"testing"
	"time"

	"shardway/diagnosis"
	"shardway/node"
)

// Short-lived states while nodes start, join and leave are not reported: no peers yet, waiting for others, not in the map yet, or an even
// number of voters.
func TestBriefStatesAreNotReported(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) { o.BootstrapExpect = 3 }
		told := map[string]bool{}
		// settles checks until the named nodes serve, and for a while longer.
		settles := func(long time.Duration, names ...string) {
			enough := time.Time{}
			w.until(fmt.Sprintf("%v serve", names), func() bool {
				for _, p := range w.running() {
					if p.node == nil {
						continue
					}
					for _, f := range p.node.Findings() {
						if line := fmt.Sprintf("%s: %s", p.name, f.Code); !told[line] {
							told[line] = true
							w.t.Errorf("as %v begin: %s says %s", names, p.name, f)
						}
					}
				}
				if enough.IsZero() && w.settled(names...) {
					enough = time.Now().Add(long)
				}
				return !enough.IsZero() && time.Now().After(enough)
			})
		}
		w.start("a")
		w.start("b")
		w.start("c")
		settles(5*time.Second, "a", "b", "c")
		w.start("d")
		settles(time.Second, "a", "b", "c", "d")
		w.start("e")
		settles(5*time.Second, "a", "b", "c", "d", "e")
	})
}

// A node without an app that starts first does not report that no node may own shards before nodes with an app have had time to start.
func TestStartingNodeWithoutAppWaitsForOthers(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) {
			if o.Dir.Node() == "a" {
				o.Gateway, o.CheckApp, o.Proxy.DialUpstream = true, nil, nil
			}
		}
		w.start("a")
		g := w.all["a"]
		<-g.node.Started()
		w.until("it leads", func() bool { return g.node.Leads() })
		w.start("b")
		w.until("b serves", func() bool {
			for _, f := range g.node.Findings() {
				if f.Severity > diagnosis.Info {
					w.t.Errorf("%s says %s", g.name, f)
				}
			}
			if g.node.HasNoOwners() {
				w.t.Error("requests are told that they wait in vain")
			}
			return w.settled("b") || w.t.Failed()
		})
	})
}
