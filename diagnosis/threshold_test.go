package diagnosis_test

import (
	"fmt"
	"testing"
	"time"

	"shardway/diagnosis"
)

// thresholdTable has what lasts just too short, or is just not enough, to be told, beside
// what is told.
func thresholdTable() []want {
	const quorum = "outage no-quorum: 1 of 3 voters is present and 2 are required, so there is no leader: b and c are missing"
	const nobody = "outage unavailable: no node serves any of the 1024 shards as far as node a knows"
	without := func(d time.Duration) diagnosis.Inputs {
		return with(func(in *diagnosis.Inputs) {
			lost(in)
			in.NoLeaderFor, in.NoLeaseFor = d, 0
		})
	}
	five := func(missing ...string) diagnosis.Inputs {
		return with(func(in *diagnosis.Inputs) {
			for _, id := range []string{"d", "e"} {
				in.Nodes = append(in.Nodes, diagnosis.Node{ID: id, Voter: true, Alive: true, App: diagnosis.AppHealthy})
			}
			nodes(in, gone, missing...)
		})
	}
	unmapped := func(d time.Duration) diagnosis.Inputs {
		return with(func(in *diagnosis.Inputs) { in.HasMap, in.NoMapFor = false, d })
	}
	return []want{
		{"an election without a quorum, at first", without(time.Second - 1), nil},
		{"and then", without(time.Second), []string{quorum, nobody}},
		{"no lease, at first", with(func(in *diagnosis.Inputs) { in.NoLeaseFor = time.Second - 1 }), nil},
		{"no map, at first", unmapped(3*time.Second - 1), nil},
		{"and then no map", unmapped(3 * time.Second), []string{"outage unavailable: there is no map yet, so no node serves any of the 1024 shards"}},
		{"no map, and nobody who would make one", with(func(in *diagnosis.Inputs) { in.HasMap, in.Leader, in.NoMapFor = false, "", time.Minute }), nil},
		{"four of five", five("e"), nil},
		{"three of five", five("d", "e"), []string{
			"warning no-fault-tolerance: 3 of 5 voters are present (a, b and c) and 3 are required: the loss of one more stops the cluster; d and e are missing",
		}},
		{"one of two is missing", with(func(in *diagnosis.Inputs) {
			in.Nodes[2].Voter = false
			nodes(in, gone, "b")
		}), nil},
		{"who does not vote is missing", with(func(in *diagnosis.Inputs) { in.Nodes = append(in.Nodes, diagnosis.Node{ID: "d"}) }), nil},
		{"apps of others when nobody leads", with(func(in *diagnosis.Inputs) {
			in.Leader, in.NoLeaderFor = "", time.Millisecond
			nodes(in, withFailingApp, "a", "b", "c")
		}), []string{"warning app-unhealthy: the app of node a, b and c does not answer"}},
		{"an app is sick and says why", with(func(in *diagnosis.Inputs) {
			nodes(in, withFailingApp, "a")
			in.Nodes[0].HealthError = "10.0.0.7:9000: connection refused"
		}), []string{"warning app-unhealthy: the app does not answer: a (10.0.0.7:9000: connection refused)"}},
		{"only gateways, at first", with(func(in *diagnosis.Inputs) {
			in.Gateway, in.HasMap = true, false
			nodes(in, func(n *diagnosis.Node) { n.Gateway, n.Shards = true, 0 }, "a", "b", "c")
		}), []string{"info no-app: node a is a gateway, because --upstream is missing: it owns nothing, and forwards to the others"}},
		{"only gateways are seen, and nobody leads", with(func(in *diagnosis.Inputs) { in.OnlyGateways, in.Leader, in.NoLeaderFor = true, "", time.Millisecond }), nil},
		{"a gateway needs no lease", with(func(in *diagnosis.Inputs) { in.Gateway, in.NoLeaseFor = true, time.Minute }), []string{
			"info no-app: node a is a gateway, because --upstream is missing: it owns nothing, and forwards to the others",
		}},
		{"no lease before the first map", with(func(in *diagnosis.Inputs) { in.HasMap, in.NoLeaseFor = false, time.Minute }), nil},
		{"a disk that hangs was slow before", with(func(in *diagnosis.Inputs) { in.DiskStalled, in.SlowestWrite = true, time.Second }), []string{"warning disk-stalled: a write to the disk of node a is stalled"}},
		{"the app of a node that is gone", with(func(in *diagnosis.Inputs) {
			in.Nodes = append(in.Nodes, diagnosis.Node{ID: "d", App: diagnosis.AppFailing})
		}), nil},
		{"the log of a node that is gone", with(func(in *diagnosis.Inputs) { in.Nodes = append(in.Nodes, diagnosis.Node{ID: "d", Lagging: true}) }), nil},
		{"most nodes could not connect to a node that is gone, drained, a gateway or stopping", with(func(in *diagnosis.Inputs) {
			in.Nodes = append(in.Nodes,
				diagnosis.Node{ID: "d", Unreachable: true},
				diagnosis.Node{ID: "e", Unreachable: true, Alive: true, Drained: true},
				diagnosis.Node{ID: "f", Unreachable: true, Alive: true, Gateway: true},
				diagnosis.Node{ID: "g", Unreachable: true, Alive: true, Stopping: true},
			)
		}), []string{"info draining: e is drained, and owns nothing", "info draining: g is to stop, and to hand over what it owns"}},
		{"nodes that cannot connect to a member are no majority", with(func(in *diagnosis.Inputs) {
			nodes(in, func(n *diagnosis.Node) { n.Reporters = []string{"a"} }, "c")
		}), nil},
		{"cordoned and drained", with(func(in *diagnosis.Inputs) {
			nodes(in, func(n *diagnosis.Node) { n.Cordoned, n.Drained, n.Shards = true, true, 0 }, "c")
		}), []string{
			"info draining: c is drained, and owns nothing",
		}},
		{"cordoned, drained and marked as failed", with(func(in *diagnosis.Inputs) {
			nodes(in, func(n *diagnosis.Node) {
				n.Cordoned, n.Drained, n.MarkedFailed, n.Shards, n.UnmovedShards = true, true, true, 0, 3
			}, "c")
		}), []string{
			"info marked-failed: c is marked as failed and gets no shards",
		}},
		{"certificates without a clock", with(func(in *diagnosis.Inputs) {
			in.Now, in.Certificates = time.Time{}, []diagnosis.Certificate{{Purpose: "the app port", Flag: "tls-cert", ExpiresAt: in.Now}}
		}), nil},
		{"not in the map, and nobody leads", with(func(in *diagnosis.Inputs) { in.NotInMap, in.Leader, in.NoLeaderFor = true, "", time.Millisecond }), nil},
		{"many nodes", with(func(in *diagnosis.Inputs) {
			for i := range 9 {
				in.Nodes = append(in.Nodes, diagnosis.Node{ID: fmt.Sprint("n", i), Alive: true, Cordoned: true})
			}
		}), []string{"info cordoned: n0, n1, n2, n3, n4, n5, n6, n7 and 1 more are cordoned and get no further shards"}},
	}
}

// Owners are named with why they do not serve, and only then.
func TestIdleOwnersAreNamedSo(t *testing.T) {
	noLease := func(in *diagnosis.Inputs) { in.NoLeaseFor = time.Millisecond }
	noLeader := func(d time.Duration) func(*diagnosis.Inputs) {
		return func(in *diagnosis.Inputs) { in.Leader, in.NoLeaderFor = "", d }
	}
	for _, tt := range []struct {
		name   string
		change func(*diagnosis.Inputs)
		owner  string
		want   string
	}{
		{"well", func(*diagnosis.Inputs) {}, "b", ""},
		{"nobody's", func(*diagnosis.Inputs) {}, "", "it is orphaned"},
		{"somebody of whom nothing is known", func(*diagnosis.Inputs) {}, "z", ""},
		{"the own disk hangs", func(in *diagnosis.Inputs) { in.LeaderUnknown = true }, "b", "the disk of this node is stalled"},
		{"nobody has led for less than a lease", noLeader(499 * time.Millisecond), "b", ""},
		{"nobody has led for a lease", noLeader(500 * time.Millisecond), "b", "this node knows no leader, and without a leader no node serves"},
		{"no lease", noLease, "a", "it has no lease"},
		{"no lease, and another's", noLease, "b", ""},
		{"it is back soon", func(in *diagnosis.Inputs) { nodes(in, func(n *diagnosis.Node) { n.Restarting = true }, "b") }, "b", "it restarts in place, and requests wait for it"},
		{"it is not there", func(in *diagnosis.Inputs) { nodes(in, gone, "b") }, "b", "it sends no heartbeats"},
		{"another one is not there", func(in *diagnosis.Inputs) { nodes(in, gone, "b") }, "c", ""},
	} {
		if got := with(tt.change).NotServingReason(tt.owner); got != tt.want {
			t.Errorf("%s: Idle(%q) = %q, want %q", tt.name, tt.owner, got, tt.want)
		}
	}
}

// What is served is what somebody serves who is there.
func TestUnavailableCountsShards(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*diagnosis.Inputs)
		want   int
	}{
		{"well", func(*diagnosis.Inputs) {}, 0},
		{"orphans", func(in *diagnosis.Inputs) { in.Orphaned = 3 }, 3},
		{"gone, and orphans", func(in *diagnosis.Inputs) {
			in.Orphaned = 3
			nodes(in, func(n *diagnosis.Node) { n.Lost = true }, "b")
		}, 345},
		{"restarting in place", func(in *diagnosis.Inputs) {
			nodes(in, func(n *diagnosis.Node) { n.Lost, n.Restarting = true, true }, "b")
		}, 0},
		{"no lease for a moment", func(in *diagnosis.Inputs) { in.NoLeaseFor = time.Second - 1 }, 0},
		{"no lease", func(in *diagnosis.Inputs) { in.NoLeaseFor = time.Second }, 341},
		{"a gateway needs none", func(in *diagnosis.Inputs) { in.Gateway, in.NoLeaseFor = true, time.Second }, 0},
		{"before the first map", func(in *diagnosis.Inputs) { in.HasMap = false }, 1024},
		{"cut off", func(in *diagnosis.Inputs) { in.LeaderUnknown = true }, 1024},
	} {
		if got := with(tt.change).CountUnavailable(); got != tt.want {
			t.Errorf("%s: %d unavailable, want %d", tt.name, got, tt.want)
		}
	}
}
