package node_test

import (
	"testing"

	"shardway/node"
)

// Every node shows the app version of every node, so that a deployment can follow its progress.
func TestEveryNodeKnowsTheAppVersions(t *testing.T) {
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) { o.AppVersion = "build " + o.Dir.Node() }
		for _, n := range []string{"a", "b", "c"} {
			w.start(n)
		}
		w.untilSettled("a", "b", "c")
		for _, p := range w.running() {
			for _, n := range p.node.API().Status().Nodes {
				if want := "build " + n.ID; n.AppVersion != want {
					t.Errorf("%s shows %q for %s, want %q", p.name, n.AppVersion, n.ID, want)
				}
			}
		}
	})
}
