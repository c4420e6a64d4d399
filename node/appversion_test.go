package node_test

import (
	"maps"
	"slices"
	"testing"

	"shardway/admin/api"
	"shardway/node"
)

// Every node shows the app version of every node, so that a deployment can follow its progress. It also shows the
// region, the roles and the metadata.
func TestEveryNodeKnowsTheLabelsOfAllNodes(t *testing.T) {
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) {
			o.AppVersion = "build " + o.Dir.Node()
			if o.Dir.Node() != "c" {
				o.Region, o.Roles, o.Meta, o.Version = "eu", []string{"db", o.Dir.Node()}, map[string]string{"rack": o.Dir.Node()}, "1.2.3"
			}
		}
		for _, n := range []string{"a", "b", "c"} {
			w.start(n)
		}
		w.untilSettled("a", "b", "c")
		for _, p := range w.running() {
			for _, n := range p.node.API().Status().Nodes {
				if want := "build " + n.ID; n.AppVersion != want {
					t.Errorf("%s shows %q for %s, want %q", p.name, n.AppVersion, n.ID, want)
				}
				want := api.Node{Region: "eu", Roles: []string{n.ID, "db"}, Meta: map[string]string{"rack": n.ID}, Version: "1.2.3"}
				if n.ID == "c" {
					want = api.Node{Roles: []string{}, Meta: map[string]string{}, Version: "test"}
				}
				if n.Region != want.Region || n.Version != want.Version || !slices.Equal(n.Roles, want.Roles) || !maps.Equal(n.Meta, want.Meta) || n.Roles == nil || n.Meta == nil {
					t.Errorf("%s shows %q, %q, %q and %q for %s", p.name, n.Region, n.Version, n.Roles, n.Meta, n.ID)
				}
			}
		}
	})
}
