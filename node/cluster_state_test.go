package node_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"shardway/event"
	"shardway/node"
)

// clusterStates calls f every 5 ms until it returns true, and returns the different states of the cluster that node p
// reported in the meantime, each with the first word of its reason. It checks that each status is consistent.
func (w *world) clusterStates(p *process, f func() bool) (states []string) {
	w.t.Helper()
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		st := p.node.API().Status()
		if all := st.Shards.Unavailable == st.Shards.Total; all && (st.State == "operational" || st.ClusterState == "stable" || st.LeaseMS > 0 && st.Leader == "") {
			w.t.Errorf("state %s, cluster %s, lease %d ms, leader %q, and %d of %d shards unavailable in one status", st.State, st.ClusterState, st.LeaseMS, st.Leader, st.Shards.Unavailable, st.Shards.Total)
		}
		if hasLease := st.LeaseMS > 0; st.State == "operational" && !hasLease {
			w.t.Errorf("state operational without a lease in one status")
		}
		if st.Role == "leader" && st.Leader != p.name || st.ClusterReason == "" {
			w.t.Errorf("role %s, leader %q, cluster state %s because %q in one status", st.Role, st.Leader, st.ClusterState, st.ClusterReason)
		}
		if len(states) == 0 || states[len(states)-1] != st.ClusterState {
			states = append(states, st.ClusterState)
		}
		if f() {
			return states
		}
		if time.Since(began) > time.Minute {
			w.t.Fatalf("%s: still waiting after a minute; states %v", p.name, states)
		}
	}
}

// From a cold start on, the state of the cluster and the numbers in one status of each node belong to the same moment.
func TestStatusOfAColdStartIsConsistent(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		for _, name := range []string{"a", "b", "c"} {
			w.all[name].terminate()
		}
		for _, name := range []string{"a", "b", "c"} {
			w.all[name].restart()
		}
		a := w.all["a"]
		for !a.started() {
			time.Sleep(5 * time.Millisecond)
		}
		states := w.clusterStates(a, func() bool { return w.settled("a", "b", "c") })
		states = append(states, w.clusterStates(a, func() bool { return a.node.API().Status().ClusterState == "stable" })...)
		if states[0] != "initializing" {
			w.t.Errorf("states %v, want initializing first", states)
		}
	})
}

// The state of the cluster follows a start, a stop of a member, its return and the loss of the quorum, on every surface.
func TestClusterStateFollowsFailures(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) { w.all[o.Dir.Node()].runsBy(o, newClock(1)) }
		w.start("a")
		a := w.all["a"]
		w.untilSettled("a")
		w.clusterStates(a, func() bool { return a.node.API().Status().ClusterState == "single-node" })
		w.start("b")
		w.start("c")
		w.untilSettled("a", "b", "c")
		w.untilVoters(3)
		is := func(want string) func() bool {
			return func() bool { return a.node.API().Status().ClusterState == want }
		}
		w.clusterStates(a, is("stable"))
		w.until("the metric follows", func() bool { return value(a.gathered(), "shardway_cluster_state", "stable") == 1 })
		victim := w.all["c"]
		_, before := a.events(0)
		victim.kill()
		if states := w.clusterStates(a, is("degraded")); slices.Contains(states, "unavailable") {
			w.t.Errorf("states after the end of a member: %v", states)
		}
		w.until("the event reports it", func() bool {
			_, all := a.events(0)
			return slices.ContainsFunc(all[len(before):], func(e event.Event) bool {
				return e.Kind == event.ClusterStateChanged && e.State == "degraded" && strings.Contains(e.Reason, "c")
			})
		})
		victim.restart()
		w.clusterStates(a, is("stable"))
		w.all["b"].kill()
		victim.kill()
		w.clusterStates(a, is("unavailable"))
		w.until("the metric follows", func() bool {
			all := a.gathered()
			return value(all, "shardway_cluster_state", "unavailable") == 1 && value(all, "shardway_cluster_state", "stable") == 0
		})
	})
}
