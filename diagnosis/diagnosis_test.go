package diagnosis_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"shardway/diagnosis"
)

// three is a cluster of three nodes that vote and serve, as a sees it.
func three() diagnosis.Inputs {
	in := diagnosis.Inputs{
		Self: "a", Leader: "b", Shards: 1024, Epoch: 17, HasMap: true, Lease: 500 * time.Millisecond, GossipTagBytes: 200, MaxGossipTagBytes: 512,
		Now: time.Date(2030, 1, 2, 0, 0, 0, 0, time.UTC),
	}
	for _, id := range []string{"a", "b", "c"} {
		in.Nodes = append(in.Nodes, diagnosis.Node{ID: id, Voter: true, Alive: true, App: diagnosis.AppHealthy, Shards: 341, AppliedEpoch: 17})
	}
	in.Nodes[1].Shards++
	return in
}

// with returns three after a change.
func with(change func(*diagnosis.Inputs)) diagnosis.Inputs {
	in := three()
	change(&in)
	return in
}

func nodes(in *diagnosis.Inputs, change func(*diagnosis.Node), ids ...string) {
	for i := range in.Nodes {
		if slices.Contains(ids, in.Nodes[i].ID) {
			change(&in.Nodes[i])
		}
	}
}

func gone(n *diagnosis.Node)           { n.Alive = false }
func withFailingApp(n *diagnosis.Node) { n.App = diagnosis.AppFailing }

// lost is a after b and c were killed.
func lost(in *diagnosis.Inputs) {
	in.Leader, in.NoLeaderFor, in.NoLeaseFor = "", 2*time.Second, 2*time.Second
	nodes(in, gone, "b", "c")
}

// fresh is a without a cluster.
func fresh(in *diagnosis.Inputs, u diagnosis.Bootstrap) {
	*in = diagnosis.Inputs{Self: "a", Shards: 1024, NoLeaderFor: time.Minute, Bootstrap: &u, Nodes: []diagnosis.Node{{ID: "a", Alive: true, App: diagnosis.AppHealthy}}}
}

type want struct {
	name string
	in   diagnosis.Inputs
	// lines are "severity code: text", all of them, in order.
	lines []string
}

func table() []want {
	return slices.Concat(clusterTable(), servingTable(), machineTable(), policyTable(), thresholdTable())
}

func clusterTable() []want {
	return []want{
		{"all is well", three(), nil},
		{"two of three are gone", with(lost), []string{
			"outage no-quorum: 1 of 3 voters is present and 2 are required, so there is no leader: b and c are missing",
			"outage unavailable: no node serves any of the 1024 shards as far as node a knows",
			"warning no-lease: node a has no lease, so it serves nothing",
		}},
		{"an election", with(func(in *diagnosis.Inputs) { in.Leader, in.NoLeaderFor = "", 900*time.Millisecond }), nil},
		{"an election among all takes a while", with(func(in *diagnosis.Inputs) { in.Leader, in.NoLeaderFor = "", 3*time.Second }), nil},
		{"nobody wins an election", with(func(in *diagnosis.Inputs) { in.Leader, in.NoLeaderFor = "", 5*time.Second }), []string{
			"outage no-quorum: node a knows no leader, although 3 of 3 voters are present: they do not reach each other's peer ports, or cannot agree",
			"outage unavailable: no node serves any of the 1024 shards as far as node a knows",
		}},
		{"a voter is at another address", with(func(in *diagnosis.Inputs) {
			in.Leader, in.NoLeaderFor = "", 5*time.Second
			in.AddressChanges = []diagnosis.AddressChange{{Node: "b", From: "10.0.0.2:7946", To: "10.0.0.9:7946", Why: "connection refused"}}
		}), []string{
			"outage no-quorum: node a knows no leader: gossip still has the previous address of node b, 10.0.0.2:7946; the node announces 10.0.0.9:7946 (connection refused)",
			"outage unavailable: no node serves any of the 1024 shards as far as node a knows",
		}},
		{"one of three is gone", with(func(in *diagnosis.Inputs) { nodes(in, gone, "c") }), []string{
			"warning no-fault-tolerance: 2 of 3 voters are present (a and b) and 2 are required: the loss of one more stops the cluster; c is missing",
		}},
		{"two vote", with(func(in *diagnosis.Inputs) { in.Nodes[2].Voter, in.EvenVoters = false, true }), []string{
			"warning even-voters: two voters (a and b): the loss of either stops the cluster",
		}},
		{"four vote", with(func(in *diagnosis.Inputs) {
			in.EvenVoters = true
			in.Nodes = append(in.Nodes, diagnosis.Node{ID: "d", Voter: true, Alive: true})
		}), []string{"warning even-voters: 4 voters (a, b, c and d) tolerate no more failures than 3 would"}},
		{"one of the founders is there", with(func(in *diagnosis.Inputs) { fresh(in, diagnosis.Bootstrap{BootstrapExpect: 3, Peers: []string{"a"}}) }), []string{
			"outage bootstrapping: 1 of the 3 nodes that must start the cluster is here (a)",
		}},
		{"the founder is gone", with(func(in *diagnosis.Inputs) {
			fresh(in, diagnosis.Bootstrap{BootstrapExpect: 3, MissingBootstrapper: "c"})
		}), []string{
			"outage bootstrapping: node c was about to bootstrap the cluster and is gone",
		}},
		{"nobody founds", with(func(in *diagnosis.Inputs) {
			fresh(in, diagnosis.Bootstrap{BootstrapExpect: 1, HasJoinAddrs: true})
			in.Nodes = append(in.Nodes, diagnosis.Node{ID: "b", Alive: true, App: diagnosis.AppHealthy})
		}), []string{
			"outage bootstrapping: no node here belongs to a cluster or starts one (a and b)",
		}},
		// It told so for a second, and took it back.
		{"whom it has tried is not known yet", with(func(in *diagnosis.Inputs) { fresh(in, diagnosis.Bootstrap{BootstrapExpect: 1, HasJoinAddrs: true}) }), nil},
		{"a newcomer", with(func(in *diagnosis.Inputs) { fresh(in, diagnosis.Bootstrap{ClusterToJoin: "c0ffee"}) }), []string{
			"info joining: node a waits to be added to cluster c0ffee",
		}},
		{"its join addresses are of two clusters", with(func(in *diagnosis.Inputs) {
			fresh(in, diagnosis.Bootstrap{ClusterToJoin: "c0ffee"})
			in.JoinConflict = &diagnosis.JoinConflict{First: diagnosis.JoinTarget{Cluster: "c0ffee", Node: "b", Addr: "10.0.0.2:7946"}, Second: diagnosis.JoinTarget{Cluster: "decaf", Node: "x", Addr: "10.0.1.2:7946"}}
		}), []string{
			"outage clusters-differ: node a joins no cluster, because its join addresses belong to two: 10.0.0.2:7946 (node b) to cluster c0ffee, 10.0.1.2:7946 (node x) to cluster decaf",
		}},
		{"a join address is of another cluster", with(func(in *diagnosis.Inputs) {
			in.JoinConflict = &diagnosis.JoinConflict{First: diagnosis.JoinTarget{Cluster: "c0ffee"}, Second: diagnosis.JoinTarget{Cluster: "decaf", Node: "x", Addr: "10.0.1.2:7946"}}
		}), []string{
			"warning clusters-differ: node a belongs to cluster c0ffee, and join address 10.0.1.2:7946 (node x) to cluster decaf",
		}},
		{"its peer port is not reached", with(func(in *diagnosis.Inputs) {
			fresh(in, diagnosis.Bootstrap{ClusterToJoin: "c0ffee"})
			in.UnreachablePeerPorts = []diagnosis.UnreachablePeerPort{{Node: "a", ReportedBy: "b", Addr: "10.0.0.1:7947", Why: "connection refused"}}
		}), []string{
			"outage peer-port-unreachable: node a is not added to the cluster: node b does not reach its peer port at 10.0.0.1:7947: connection refused",
			"info joining: node a waits to be added to cluster c0ffee",
		}},
		{"it reaches no peer port", with(func(in *diagnosis.Inputs) {
			fresh(in, diagnosis.Bootstrap{ClusterToJoin: "c0ffee"})
			in.UnreachablePeerPorts = []diagnosis.UnreachablePeerPort{{Node: "b", ReportedBy: "a", Addr: "10.0.0.2:7947", Why: "no answer within 1 s"}}
		}), []string{
			"outage peer-port-unreachable: node a does not reach the peer port of node b at 10.0.0.2:7947: no answer within 1 s",
			"info joining: node a waits to be added to cluster c0ffee",
		}},
		{"it waits for an approval", with(func(in *diagnosis.Inputs) {
			fresh(in, diagnosis.Bootstrap{ClusterToJoin: "c0ffee"})
			in.OwnJoin = &diagnosis.OwnJoin{Ticket: 17}
		}), []string{
			"warning join-waiting: node a waits for an approval to join (ticket 17)",
		}},
		{"its join request is not recorded", with(func(in *diagnosis.Inputs) {
			fresh(in, diagnosis.Bootstrap{ClusterToJoin: "c0ffee"})
			in.OwnJoin = &diagnosis.OwnJoin{Reason: "64 join requests are open"}
		}), []string{
			"warning join-waiting: the join request of node a is not recorded: 64 join requests are open",
		}},
		{"nodes wait for an approval", with(func(in *diagnosis.Inputs) {
			in.JoinRequests = []diagnosis.JoinRequest{{Node: "d", Ticket: 17, Long: true}, {Node: "e", Ticket: 18}}
		}), []string{
			"warning join-waiting: node d waits for an approval to join (ticket 17)",
			"info join-waiting: node e waits for an approval to join (ticket 18)",
		}},
		{"a new node is not reached", with(func(in *diagnosis.Inputs) {
			in.UnreachablePeerPorts = []diagnosis.UnreachablePeerPort{{Node: "d", ReportedBy: "a", Addr: "10.0.0.4:7947", Why: "connection refused"}}
		}), []string{
			"warning peer-port-unreachable: node d is not added to the cluster: node a does not reach its peer port at 10.0.0.4:7947: connection refused",
		}},
		{"nobody is reached", with(func(in *diagnosis.Inputs) {
			fresh(in, diagnosis.Bootstrap{BootstrapExpect: 1, HasJoinAddrs: true})
			in.JoinFailure = &diagnosis.JoinFailure{Attempts: []diagnosis.JoinAttempt{{Addr: "10.0.0.2:7946", Why: "connection refused"}, {Addr: "10.0.0.3:8081", Why: "it is the admin port of a node"}}}
		}), []string{
			"outage no-peers: node a has reached no other node: 10.0.0.2:7946 (connection refused), 10.0.0.3:8081 (it is the admin port of a node)",
		}},
		{"it joins only itself", with(func(in *diagnosis.Inputs) {
			fresh(in, diagnosis.Bootstrap{BootstrapExpect: 1, HasJoinAddrs: true})
			in.JoinFailure = &diagnosis.JoinFailure{Attempts: []diagnosis.JoinAttempt{{Addr: "nodes:7946", Why: "it is this node itself", ReachedSelf: true}}}
		}), []string{
			"outage no-peers: node a has reached no other node: nodes:7946 (it is this node itself)",
		}},
		{"one node that leads needs no other", with(func(in *diagnosis.Inputs) { in.JoinFailure = &diagnosis.JoinFailure{} }), nil},
	}
}

func servingTable() []want {
	return []want{
		{"the app hangs", with(func(in *diagnosis.Inputs) {
			in.AppSilentFor, in.AppPendingRequests, in.AppUnreadRequests = 34*time.Second, 5, 3
		}), []string{
			"warning app-not-responding: the app of node a has begun no response for 34 s: 5 requests are waiting, and the app has not read 3 of them",
		}},
		{"the app takes long", with(func(in *diagnosis.Inputs) { in.AppSilentFor, in.AppPendingRequests = 40*time.Second, 1 }), []string{
			"warning app-not-responding: the app of node a has begun no response for 40 s: 1 request is waiting",
		}},
		{"no app answers", with(func(in *diagnosis.Inputs) {
			nodes(in, withFailingApp, "a", "b", "c")
			in.Nodes[0].HealthError = "connection refused"
			in.Orphaned = 1024
			nodes(in, func(n *diagnosis.Node) { n.Shards = 0 }, "a", "b", "c")
		}), []string{
			"outage no-healthy-app: no node has an app that responds: a (connection refused), b and c",
			"outage unavailable: no node serves any of the 1024 shards as far as node a knows",
		}},
		{"an app is sick", with(func(in *diagnosis.Inputs) { nodes(in, withFailingApp, "b") }), []string{"warning app-unhealthy: the app of node b does not answer"}},
		{"an app instance is down", with(func(in *diagnosis.Inputs) {
			nodes(in, func(n *diagnosis.Node) { n.UnhealthyInstances = []diagnosis.Instance{{Number: 2}} }, "b")
		}), []string{"warning instance-unhealthy: the app instance b/2 does not answer"}},
		{"app instances are down", with(func(in *diagnosis.Inputs) {
			nodes(in, func(n *diagnosis.Node) {
				n.UnhealthyInstances = []diagnosis.Instance{{Number: 1, HealthError: "connection refused"}, {Number: 3}}
			}, "a")
		}), []string{"warning instance-unhealthy: the app instances a/1 (connection refused) and a/3 do not answer"}},
		{"all instances of an app are down", with(func(in *diagnosis.Inputs) {
			nodes(in, withFailingApp, "b")
			nodes(in, func(n *diagnosis.Node) { n.UnhealthyInstances = []diagnosis.Instance{{Number: 1}, {Number: 2}} }, "b")
		}), []string{"warning app-unhealthy: the app of node b does not answer"}},
		{"most apps are unhealthy", with(func(in *diagnosis.Inputs) {
			nodes(in, withFailingApp, "a", "b")
			nodes(in, func(n *diagnosis.Node) { n.KeepsShards = true }, "a", "b")
		}), []string{"outage health-panic: 2 of 3 apps are unhealthy (a and b), so shards stay where they are and requests go to their app"}},
		{"most apps were unhealthy", with(func(in *diagnosis.Inputs) {
			nodes(in, withFailingApp, "b")
			nodes(in, func(n *diagnosis.Node) { n.KeepsShards, n.HealthError = true, "status 500" }, "b")
		}), []string{"outage health-panic: most apps were unhealthy a moment ago, so shards stay where they are; b still is: b (status 500)"}},
		{"an app flaps", with(func(in *diagnosis.Inputs) {
			nodes(in, func(n *diagnosis.Node) { n.NoShardsFor, n.FailuresInRow = time.Second, 3 }, "b")
		}), []string{"warning app-flapping: the app of node b became unhealthy 3 times in a row: node b gets shards once its app has been healthy for longer (up to 5 min)"}},
		{"a gateway", with(func(in *diagnosis.Inputs) { in.Gateway = true; in.Nodes[0].Gateway = true }), []string{
			"info no-app: node a is a gateway, because --upstream is missing: it owns nothing, and forwards to the others",
		}},
		{"only gateways", with(func(in *diagnosis.Inputs) {
			in.Gateway, in.OnlyGateways, in.HasMap, in.NoMapFor = true, true, false, time.Minute
			nodes(in, func(n *diagnosis.Node) { n.Gateway, n.Shards = true, 0 }, "a", "b", "c")
		}), []string{
			"outage no-healthy-app: no node has an app (a, b and c)",
			"outage unavailable: there is no map yet, so no node serves any of the 1024 shards",
			"warning no-app: node a is a gateway, because --upstream is missing: it owns nothing",
		}},
		{"no lease", with(func(in *diagnosis.Inputs) { in.NoLeaseFor = 2 * time.Second }), []string{
			"outage unavailable: no node serves 341 of 1024 shards",
			"warning no-lease: node a has no lease of leader b, so it serves nothing",
		}},
		{"an owner is gone and its shards stay", with(func(in *diagnosis.Inputs) {
			nodes(in, func(n *diagnosis.Node) { n.Alive, n.Lost = false, true }, "c")
		}), []string{
			"outage unavailable: no node serves 341 of 1024 shards: c is still their owner and not reachable",
			"warning no-fault-tolerance: 2 of 3 voters are present (a and b) and 2 are required: the loss of one more stops the cluster; c is missing",
		}},
		{"shards without an owner", with(func(in *diagnosis.Inputs) { in.Orphaned = 3 }), []string{"outage unavailable: 3 of 1024 shards are orphaned"}},
		{"not in the map", with(func(in *diagnosis.Inputs) { in.NotInMap = true }), []string{"info joining: node a is not in the shard map yet"}},
		{"an app acquires", with(func(in *diagnosis.Inputs) { in.Acquiring = "2 shards: 1, 2" }), []string{
			"info acquiring: the app of node a is acquiring 2 shards: 1, 2, and the requests wait",
		}},
		{"nothing is acquired without a lease", with(func(in *diagnosis.Inputs) { in.Acquiring, in.NoLeaseFor = "2 shards: 1, 2", time.Minute }), []string{
			"outage unavailable: no node serves 341 of 1024 shards",
			"warning no-lease: node a has no lease of leader b, so it serves nothing",
		}},
		{"an app does not acquire", with(func(in *diagnosis.Inputs) { in.Acquiring, in.AcquireError = "shard 7", "status 500" }), []string{
			"warning acquiring: the app of node a does not acquire shard 7, whose requests wait: status 500",
		}},
		{"an app did not release", with(func(in *diagnosis.Inputs) {
			nodes(in, func(n *diagnosis.Node) { n.UnreleasedMoves, n.UnreleasedReason = 342, "status 500" }, "a")
			nodes(in, func(n *diagnosis.Node) { n.UnreleasedMoves = 1 }, "b")
		}), []string{
			"warning not-released: 342 shards moved within the last 10 minutes although the app of node a had not released them: status 500",
			"warning not-released: 1 shard moved within the last 10 minutes although the app of node b had not released it",
		}},
		{"requests wait for an app that does not acquire", with(func(in *diagnosis.Inputs) {
			in.Acquiring, in.AcquireError = "shard 7", "status 500"
			nodes(in, func(n *diagnosis.Node) { n.WaitingShards = 1 }, "a")
			nodes(in, func(n *diagnosis.Node) { n.WaitingShards, n.ShardsMovedAway, n.CannotAcquire = 341, 256, true }, "b")
		}), []string{
			"outage acquiring: the app of node a does not acquire shard 7, whose requests wait: status 500",
			"outage acquiring: the app of node b does not acquire 341 shards, whose requests wait",
		}},
		{"an app does not respond to acquire", with(func(in *diagnosis.Inputs) {
			in.Acquiring = "2 shards: 1, 2"
			nodes(in, func(n *diagnosis.Node) { n.WaitingShards = 2 }, "a")
		}), []string{"outage acquiring: the app of node a does not acquire 2 shards: 1, 2, whose requests wait: it has not responded yet"}},
		{"other nodes own what an app did not acquire", with(func(in *diagnosis.Inputs) {
			nodes(in, func(n *diagnosis.Node) { n.ShardsMovedAway = 1 }, "a")
			nodes(in, func(n *diagnosis.Node) { n.CannotAcquire, n.ShardsMovedAway = true, 256 }, "b")
		}), []string{
			"warning acquiring: the app of node a did not acquire 1 shard, so other nodes own it",
			"warning acquiring: the app of node b acquires no shards, so the node gets none",
		}},
		{"a node restarts in place", with(func(in *diagnosis.Inputs) {
			nodes(in, func(n *diagnosis.Node) { n.Restarting, n.Grace = true, 30*time.Second }, "c")
		}), []string{"info restarting: node c restarts in place: its 341 shards wait for it, for up to 30s"}},
		{"a log is behind", with(func(in *diagnosis.Inputs) {
			nodes(in, func(n *diagnosis.Node) { n.Lagging, n.AppliedEpoch = true, 14 }, "c")
		}), []string{
			"warning lagging: node c is behind: it has the shard map of epoch 14, and the cluster is at epoch 17",
		}},
		{"most nodes cannot connect to a node", with(func(in *diagnosis.Inputs) {
			nodes(in, func(n *diagnosis.Node) {
				n.Unreachable, n.Reporters, n.Shards = true, []string{"a", "b"}, 0
			}, "c")
		}), []string{
			"warning node-unreachable: node c is excluded from the shard map, because most other nodes could not connect to its peer port: a and b cannot connect now",
		}},
		{"most nodes could not connect to this node", with(func(in *diagnosis.Inputs) {
			in.NotInMap = true
			nodes(in, func(n *diagnosis.Node) { n.Unreachable, n.Shards = true, 0 }, "a")
		}), []string{
			"warning node-unreachable: node a is excluded from the shard map, because most other nodes could not connect to its peer port",
		}},
		{"two processes have one id", with(func(in *diagnosis.Inputs) { in.DuplicateAddr, in.NoLeaseFor = "10.0.0.9:7947", time.Minute }), []string{
			"outage unavailable: no node serves 341 of 1024 shards",
			"warning duplicate-node: another process has the id of node a, at 10.0.0.9:7947",
		}},
	}
}

func machineTable() []want {
	return []want{
		{"two leaders", with(func(in *diagnosis.Inputs) {
			in.Contradictions.TwoLeaders = &diagnosis.LeaderPair{Term: 7, First: "a", Second: "b"}
		}), []string{"outage two-leaders: nodes a and b both led the cluster in term 7"}},
		{"two owners", with(func(in *diagnosis.Inputs) {
			in.Contradictions.TwoOwners = &diagnosis.OwnerPair{Shard: 5, Epoch: 12, First: "a", Second: "b/2"}
		}), []string{"outage two-owners: shard 5 belonged to a and to b/2 under ownership epoch 12"}},
		{"two maps", with(func(in *diagnosis.Inputs) {
			in.Contradictions.TwoOwners = &diagnosis.OwnerPair{Epoch: 12, First: "a", Second: "b", IsWholeMap: true}
		}), []string{"outage two-owners: nodes a and b have different shard maps of epoch 12"}},
		{"a lease is too long", with(func(in *diagnosis.Inputs) { in.Contradictions.LeaseExcess = 2 * time.Second }), []string{
			"outage lease-too-long: the lease of node a ended 2s later than the leader had granted it",
		}},
		{"owners and a leader outside the cluster", with(func(in *diagnosis.Inputs) {
			in.Contradictions.OwnersNotMembers, in.Contradictions.LeaderNotMember = []string{"x", "y"}, "z"
		}), []string{"outage owner-not-member: x and y own shards and are not in the cluster", "outage leader-not-member: node z leads the cluster and is not one of its voters"}},
		{"the disk hangs", with(func(in *diagnosis.Inputs) { in.DiskStalled = true }), []string{"warning disk-stalled: a write to the disk of node a is stalled"}},
		{"the disk hung while it led", with(func(in *diagnosis.Inputs) { in.DiskStalled, in.LeaderUnknown, in.Leader = true, true, "" }), []string{
			"outage unavailable: no node serves any of the 1024 shards as far as node a knows",
			"warning disk-stalled: a write to the disk of node a is stalled",
		}},
		{"the disk is slow", with(func(in *diagnosis.Inputs) { in.SlowestWrite = 1234 * time.Millisecond }), []string{"warning disk-slow: a write to the disk of node a took 1.2s"}},
		{"the process stood still", with(func(in *diagnosis.Inputs) { in.PausedFor = 3210 * time.Millisecond }), []string{
			"warning clock-jump: node a did not run for 3.2s, or its clock jumped, and a lease is 500ms",
		}},
		{"the queue is full", with(func(in *diagnosis.Inputs) { in.QueueRefused, in.QueueWaiting = 12, 10000 }), []string{
			"warning queue-full: node a refused requests lately because too many wait: 12 refused, 10000 waiting",
		}},
		{"processes fail", with(func(in *diagnosis.Inputs) {
			in.FailingProcesses, in.ProcessError = 2, "shard 7: the process has ended: exit status 1"
		}), []string{
			"warning process-failing: processes of the app of node a fail for 2 keys or shards: shard 7: the process has ended: exit status 1",
		}},
		{"the webhook fails", with(func(in *diagnosis.Inputs) {
			in.WebhookReceiver, in.WebhookFailingFor, in.WebhookError = "https://hub/…", 125*time.Second, "status 500 Internal Server Error"
		}), []string{
			"warning webhook-failing: the webhook https://hub/… does not acknowledge the events of node a for 2m5s: status 500 Internal Server Error",
		}},
		{"the webhook failed once", with(func(in *diagnosis.Inputs) {
			in.WebhookReceiver, in.WebhookFailingFor, in.WebhookError = "https://hub/…", 59*time.Second, "status 500 Internal Server Error"
		}), nil},
		{"the webhook lost events", with(func(in *diagnosis.Inputs) { in.WebhookReceiver, in.WebhookLost = "https://hub/…", 17 }), []string{
			"warning webhook-failing: the webhook https://hub/… does not acknowledge the events of node a; 17 events were lost",
		}},
		{"there is no webhook any more", with(func(in *diagnosis.Inputs) { in.WebhookLost = 17 }), nil},
		{"tags are nearly full", with(func(in *diagnosis.Inputs) { in.GossipTagBytes = 480 }), []string{"warning tags-nearly-full: the gossip tags of node a use 480 of 512 bytes"}},
		{"an upgrade is pending", with(func(in *diagnosis.Inputs) { in.FormatVersion, in.NextFormatVersion, in.UpgradeBlocker = 1, 2, "c" }), []string{
			"warning upgrade-pending: format version 1 is in force, and format version 2 is blocked by c",
		}},
		{"settings differ", with(func(in *diagnosis.Inputs) {
			in.Differences = diagnosis.Differences([]diagnosis.SettingsOf{
				{Node: "a", Settings: map[string]string{"key": "header:x-tenant", "drain-timeout": "5s", "routes": ""}},
				{Node: "b", Settings: map[string]string{"key": "header:x-tenant", "drain-timeout": "10s", "routes": "/a: ip"}},
				{Node: "c", Settings: map[string]string{"key": "query:t", "drain-timeout": "5s"}},
			})
		}), []string{
			`warning config-differs: setting key differs: a and b have "header:x-tenant", c has "query:t"`,
			`warning config-differs: setting routes differs: a has none, b has "/a: ip"`,
			`info config-differs: setting drain-timeout differs: a and c have "5s", b has "10s"`,
		}},
		{"a service has another number of shards", with(func(in *diagnosis.Inputs) {
			in.ServiceConflicts = []diagnosis.ServiceConflict{{Service: "chat", Configured: 256, Cluster: 64}}
		}), []string{"warning service-shards-differ: service chat has 64 shards in the cluster, and 256 in the configuration of node a"}},
		{"no node has run a service", with(func(in *diagnosis.Inputs) {
			in.UnstartedServices = []diagnosis.UnstartedService{{Service: "chat", Shards: 64, IsRouted: true}, {Service: "mail", Shards: 1}}
		}), []string{
			"warning service-not-started: no node has run service chat yet, so its requests wait",
			"info service-not-started: no node has run service mail yet, so its 1 shard has no owner",
		}},
		{"a service has no node", with(func(in *diagnosis.Inputs) { in.Orphaned, in.OrphanedServices = 3, []string{"chat"} }), []string{
			"outage unavailable: 3 of 1024 shards are orphaned: no node can own shards of service chat",
		}},
		{"the keys cannot be read", with(func(in *diagnosis.Inputs) { in.KeyConfigError = `"future:x" is not a key source` }), []string{
			`outage keys-unreadable: node a cannot read the active key configuration, so its requests wait: "future:x" is not a key source`,
		}},
		{"certificates end", with(func(in *diagnosis.Inputs) {
			in.Certificates = []diagnosis.Certificate{
				{Purpose: "the app port", Flag: "tls-cert", ExpiresAt: in.Now.Add(48 * time.Hour)},
				{Purpose: "the admin port", Flag: "admin-cert", ExpiresAt: in.Now},
				{Purpose: "other nodes", Flag: "tls-node-cert", ExpiresAt: in.Now.AddDate(0, 1, 0)},
			}
		}), []string{
			"warning certificate-expiring: the certificate of node a for the app port expires on 2030-01-04",
			"warning certificate-expiring: the certificate of node a for the admin port expired on 2030-01-02",
		}},
		{"open to everybody", with(func(in *diagnosis.Inputs) {
			in.Exposures = []diagnosis.Exposure{{Text: "anyone who reaches the admin port of node a (:8081) can change the cluster", Remedy: "require a token"}, {Text: "gossip is not encrypted", Remedy: "give it a secret"}}
		}), []string{
			"warning insecure: anyone who reaches the admin port of node a (:8081) can change the cluster", "warning insecure: gossip is not encrypted",
		}},
	}
}

func policyTable() []want {
	return []want{
		{"a key broke two nodes", with(func(in *diagnosis.Inputs) {
			in.PoisonSuspects = []diagnosis.Poison{{Shard: 7, Hash: 0xab, Nodes: []string{"b", "c"}}}
		}), []string{"warning poison-suspect: requests of the key with key_hash 00000000000000ab, in shard 7, were under way at b and c when these broke"}},
		{"a key of a service breaks nodes", with(func(in *diagnosis.Inputs) {
			in.PoisonSuspects = []diagnosis.Poison{{Service: "chat", Shard: 7, Hash: 0xab, Nodes: []string{"b", "c"}}}
		}), []string{"warning poison-suspect: requests of the key with key_hash 00000000000000ab, in shard 7 of service chat, were under way at b and c when these broke"}},
		{"drained", with(func(in *diagnosis.Inputs) { nodes(in, func(n *diagnosis.Node) { n.Drained, n.Shards = true, 0 }, "c") }), []string{
			"info draining: c is drained, and owns nothing",
		}},
		{"being drained", with(func(in *diagnosis.Inputs) { nodes(in, func(n *diagnosis.Node) { n.Drained = true }, "b", "c") }), []string{
			"info draining: b and c are drained, and own 683 shards still",
		}},
		{"a safe drain leaves shards", with(func(in *diagnosis.Inputs) {
			nodes(in, func(n *diagnosis.Node) {
				n.Drained, n.Shards, n.UnmovedShards, n.UnmovedReason = true, 3, 3, "status 500"
			}, "c")
		}), []string{
			"info draining: c is drained, and owns 3 shards still",
			"info draining: the safe drain leaves 3 shards at node c, because its app has not released them: status 500",
		}},
		{"about to stop", with(func(in *diagnosis.Inputs) {
			in.Stopping = true
			nodes(in, func(n *diagnosis.Node) { n.Stopping = true }, "a", "c")
		}), []string{
			"info draining: node a is to stop, and hands its shards over", "info draining: c is to stop, and to hand over what it owns",
		}},
		{"paused", with(func(in *diagnosis.Inputs) { in.PausedMovesFor = "30m" }), []string{"info paused: planned moves of shards are paused for 30m"}},
		{"marked as failed", with(func(in *diagnosis.Inputs) {
			nodes(in, func(n *diagnosis.Node) { n.MarkedFailed, n.Shards = true, 0 }, "c")
		}), []string{"info marked-failed: c is marked as failed and gets no shards"}},
		{"marked as failed a moment ago", with(func(in *diagnosis.Inputs) { nodes(in, func(n *diagnosis.Node) { n.MarkedFailed = true }, "b", "c") }), []string{
			"info marked-failed: b and c are marked as failed, and own 683 shards still",
		}},
		{"no node has the role", with(func(in *diagnosis.Inputs) { in.MissingRole = "app" }), []string{"warning role-missing: shards are restricted to the role app, and no node with this role can get shards: other nodes keep and get them"}},
		{"cordoned", with(func(in *diagnosis.Inputs) { nodes(in, func(n *diagnosis.Node) { n.Cordoned = true }, "c") }), []string{"info cordoned: c is cordoned and gets no further shards"}},
		{"shards returned to an app that has not restarted", with(func(in *diagnosis.Inputs) { nodes(in, func(n *diagnosis.Node) { n.StaleReturns = 3 }, "b") }), []string{
			"warning stale-return: 3 shards returned to the app of node b, which had them before and has not restarted: no other node could own them",
		}},
		{"in quarantine", with(func(in *diagnosis.Inputs) { in.Quarantined, in.StaleQuarantines = 2, 1 }), []string{
			"warning quarantine-stale: 1 key in quarantine is not refused, because the hashes were made with a secret that is no longer in use",
			"info quarantined: 2 keys are in quarantine, and their requests are refused",
		}},
	}
}

func TestEveryStateHasItsSentence(t *testing.T) {
	seen := map[diagnosis.Code]bool{}
	for _, tt := range table() {
		t.Run(tt.name, func(t *testing.T) {
			var lines []string
			for _, f := range diagnosis.Findings(tt.in) {
				seen[f.Code] = true
				lines = append(lines, f.Severity.String()+" "+string(f.Code)+": "+f.Text)
				if f.Remedy == "" || strings.HasSuffix(f.Text, ".") {
					t.Errorf("%s: text %q, remedy %q: want a sentence without a full stop, and a remedy", f.Code, f.Text, f.Remedy)
				}
			}
			for i, f := range diagnosis.Findings(tt.in) {
				if slices.ContainsFunc(diagnosis.Findings(tt.in)[:i], f.Same) {
					t.Errorf("%s is there twice: only the first one would be told", f)
				}
			}
			if !slices.Equal(lines, tt.lines) {
				t.Errorf("found\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(tt.lines, "\n"))
			}
		})
	}
	for _, c := range diagnosis.Codes() {
		if !seen[c] {
			t.Errorf("no state of the table comes to %s", c)
		}
	}
	if len(seen) != len(diagnosis.Codes()) {
		t.Errorf("%d codes were found, Codes lists %d", len(seen), len(diagnosis.Codes()))
	}
}

// Nobody who may not read the admin port is told an address, or what an app said.
func TestBriefHasNoAddresses(t *testing.T) {
	for _, tt := range table() {
		for _, f := range diagnosis.Findings(tt.in) {
			if p := f.Public(); strings.Contains(p, "10.0.0.") || strings.Contains(p, "connection refused") || strings.Contains(p, "status 500") || strings.Contains(p, ":8081") {
				t.Errorf("everybody is told %q", p)
			}
		}
	}
}

// Without a leader no owner is named without saying that it does not serve, and no shard
// counts as served.
func TestNoQuorumIsAnOutage(t *testing.T) {
	in := with(lost)
	for _, owner := range []string{"", "a", "b", "c"} {
		if in.NotServingReason(owner) == "" {
			t.Errorf("Idle(%q) is empty without a quorum", owner)
		}
	}
	if got := in.CountUnavailable(); got != 1024 {
		t.Errorf("Unavailable() = %d, want 1024", got)
	}
	well := three()
	if got := well.NotServingReason("a") + well.NotServingReason("b"); got != "" || well.CountUnavailable() != 0 {
		t.Errorf("in a cluster that is well, owners are idle (%q) or %d shards unavailable", got, well.CountUnavailable())
	}
	if well.NotServingReason("") == "" {
		t.Error("an orphan counts as served")
	}
}

func TestFindingsSurviveJSON(t *testing.T) {
	all := diagnosis.Findings(with(lost))
	b, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	var back []diagnosis.Finding
	if err := json.Unmarshal(b, &back); err != nil || !slices.Equal(back, all) {
		t.Errorf("%s came back as %+v, %v", b, back, err)
	}
	if got := diagnosis.Worst(back); got != diagnosis.Outage {
		t.Errorf("Worst() = %v", got)
	}
	var newer diagnosis.Finding
	if err := json.Unmarshal([]byte(`{"severity":"catastrophe"}`), &newer); err != nil || newer.Severity != diagnosis.Warning {
		t.Errorf("a severity of a newer node came to %v, %v", newer.Severity, err)
	}
}

func TestChangesGoByCodeAndSubject(t *testing.T) {
	f := func(c diagnosis.Code, subject, text string) diagnosis.Finding {
		return diagnosis.Finding{Code: c, Subject: subject, Text: text}
	}
	before := []diagnosis.Finding{f(diagnosis.Restarting, "b", "30s"), f(diagnosis.Paused, "", "5m")}
	now := []diagnosis.Finding{f(diagnosis.Restarting, "b", "20s"), f(diagnosis.Restarting, "c", "30s")}
	came, went := diagnosis.Changes(before, now)
	if len(came) != 1 || came[0].Subject != "c" || len(went) != 1 || went[0].Code != diagnosis.Paused {
		t.Errorf("came %+v, went %+v", came, went)
	}
}

// A safe drain leaves the shards of a hung instance at its node. The finding about the instance must not report that
// other instances own them.
func TestRemedyForInstanceOfDrainedNode(t *testing.T) {
	for _, tc := range []struct {
		isDrained bool
		shards    int
		want      string
	}{
		{false, 3, "; other instances of its node own its shards until then"},
		{true, 3, "; drain b without --safe to move shards that a safe drain has left there"},
		{true, 0, "; other instances of its node own its shards until then"},
	} {
		in := with(func(in *diagnosis.Inputs) {
			nodes(in, func(n *diagnosis.Node) {
				n.Drained, n.Shards, n.UnhealthyInstances = tc.isDrained, tc.shards, []diagnosis.Instance{{Number: 2}}
			}, "b")
		})
		for _, f := range diagnosis.Findings(in) {
			if f.Code == diagnosis.InstanceUnhealthy && f.Remedy != "start the app instance, or correct --upstream and --health"+tc.want {
				t.Errorf("drained %v with %d shards: remedy %q", tc.isDrained, tc.shards, f.Remedy)
			}
		}
	}
}

// Whose secret is another one is told to mend that, not to start those who refuse it.
func TestDifferentSecretIsTheReportedRemedy(t *testing.T) {
	refused := diagnosis.JoinAttempt{Addr: "10.0.0.2:7946", Why: "it has another secret (--secret-file)", OtherSecret: true}
	down := diagnosis.JoinAttempt{Addr: "10.0.0.3:7946", Why: "connection refused"}
	for name, tc := range map[string]struct {
		asked []diagnosis.JoinAttempt
		want  bool
	}{
		"both":        {[]diagnosis.JoinAttempt{refused, refused}, true},
		"one":         {[]diagnosis.JoinAttempt{down, refused}, true},
		"without one": {[]diagnosis.JoinAttempt{{Addr: "10.0.0.2:7946", Why: "it was started without the cluster's secret (--secret-file)"}}, false},
		"neither":     {[]diagnosis.JoinAttempt{down, down}, false},
		"not said":    {nil, false},
	} {
		in := with(func(in *diagnosis.Inputs) {
			in.Leader, in.NoLeaderFor = "", time.Minute
			in.JoinFailure = &diagnosis.JoinFailure{Attempts: tc.asked}
			nodes(in, func(n *diagnosis.Node) { n.Alive = false }, "b", "c")
		})
		for _, f := range diagnosis.Findings(in) {
			if f.Code != diagnosis.NoPeers && f.Code != diagnosis.NoQuorum {
				continue
			}
			if got := strings.Contains(f.Remedy, "--secret-file"); got != tc.want {
				t.Errorf("%s: %s: %s", name, f.Code, f.Remedy)
			}
		}
	}
}

// Only the node whose app did not release knows the reason, so other nodes name that node.
func TestNotReleasedNamesTheNodeWithTheReason(t *testing.T) {
	in := with(func(in *diagnosis.Inputs) {
		nodes(in, func(n *diagnosis.Node) { n.UnreleasedMoves, n.UnreleasedReason = 1, "status 500" }, "a")
		nodes(in, func(n *diagnosis.Node) { n.UnreleasedMoves = 1 }, "b")
	})
	for _, f := range diagnosis.Findings(in) {
		if got, want := strings.Contains(f.Remedy, "read the reason with `shardway status` at node b"), f.Subject == "b"; got != want {
			t.Errorf("%s: %s, remedy %q", f.Subject, f.Text, f.Remedy)
		}
	}
}

// imperatives are the verbs that remedies start with.
var imperatives = []string{
	"add", "announce", "change", "check", "delete", "encrypt", "find", "free", "give", "lift", "list", "lower", "open", "quarantine", "raise", "read", "remove", "repair", "replace", "require",
	"resolve", "restart", "run", "set", "shorten", "start", "stop", "upgrade", "wait",
}

func TestRemediesStartWithAnImperative(t *testing.T) {
	for _, tt := range table() {
		for _, f := range diagnosis.Findings(tt.in) {
			verb, _, _ := strings.Cut(f.Remedy, " ")
			if verb = strings.TrimSuffix(verb, ","); f.Remedy != "" && !slices.Contains(imperatives, verb) {
				t.Errorf("%s: the remedy is %q: start with a verb, such as start, check or run", f.Code, f.Remedy)
			}
		}
	}
}
