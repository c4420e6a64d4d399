package node

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/node/consensus"
	"shardway/node/control"
	"shardway/node/crashdetect"
	"shardway/node/disk"
	"shardway/node/findings"
	"shardway/node/leaderloop"
	"shardway/proxy/poison"
	"shardway/proxy/route"
	"shardway/shardmap"
)

var errKilled = errors.New("killed by the test")

// Kill stops the node as a crash does, without a handoff.
func (n *Node) Kill() { n.failures.fail(errKilled) }

// Mark returns the shard and the key_hash of a key.
func (n *Node) Mark(key string) (shard uint32, hash string) {
	shard, hash, _ = n.hasher.Mark("", key)
	return shard, hash
}

// TakeSnapshot writes a snapshot of the replicated state. The next start loads it.
func (n *Node) TakeSnapshot() error { return n.raft.Snapshot() }

// HoldLog makes the node call f before it applies each log entry.
func (n *Node) HoldLog(f func()) { n.fsm.beforeApply = f }

// Admits reports whether the node would admit a request for s now, and under
// which ownership epoch.
func (n *Node) Admits(s shardmap.Shard) (epoch uint64, ok bool) {
	epoch, release, err := n.router.Admit(s)
	if err != nil {
		return 0, false
	}
	release()
	return epoch, true
}

// Run1 begins a request for s as the proxy does. ok is false if the node does not admit it; otherwise the test must call release.
func (n *Node) Run1(s shardmap.Shard) (release func(), ok bool) {
	_, release, err := n.router.Admit(s)
	return release, err == nil
}

// ReplaceMonitor replaces the monitor by one with other options. It must be called before Run.
func (n *Node) ReplaceMonitor(change func(*findings.Options)) {
	options := n.monitorOptions()
	change(&options)
	n.monitor = findings.New(options)
}

// Explain returns the explanation of a finding for requests that are queued for this reason.
func (n *Node) Explain(why route.Reason) route.Explanation { return n.monitor.Explain(why) }

// Known returns the state after the newest log entry that the node has applied.
func (n *Node) Known() *ack.State { return n.fsm.state.Load() }

// State returns the state that the node routes by.
func (n *Node) State() *ack.State { return n.router.State() }

// Table returns the current routing table.
func (n *Node) Table() *route.Table { return n.router.Table() }

// Leased reports whether the node has a lease.
func (n *Node) Leased() bool { return n.router.HasLease() }

// LeaseLeft returns the remaining time of the node's lease.
func (n *Node) LeaseLeft() time.Duration { return n.router.LeaseLeft() }

// Leads reports whether the node runs the leader loop.
func (n *Node) Leads() bool { return n.leaderRunner.leadership.Load() != nil }

// Voters returns the voters of the latest configuration in the node's own log.
func (n *Node) Voters() []string {
	voters, _ := n.view.Servers()
	for i, v := range voters {
		voters[i] = consensus.NodeOf(v)
	}
	return voters
}

// SendLeaveNotice makes the node report that it serves no more requests.
func (n *Node) SendLeaveNotice() {
	n.agent.SayGoodbye()
}

// GoneFrom reports whether, by the state s, a request for the shard sh that was forwarded to a node may never get a response.
func GoneFrom(s *ack.State, sh shardmap.Shard, node string) bool { return orphanedIn(s, 0)(sh, node) }

// Forwarded returns the number of forwarded requests that wait for a response of another node.
func (n *Node) Forwarded(node string) (count int) {
	n.proxy.CancelForwarded(func(_ shardmap.Shard, to string) bool {
		if to == node {
			count++
		}
		return false
	})
	return count
}

// Promised returns the node that this node allows to found the cluster, or "".
func (n *Node) Promised() string {
	to, _ := n.bootstrapper.PromisedTo()
	return to
}

// Servers returns the nodes whose servers are in the Raft configuration.
func (n *Node) Servers() (out []string) {
	for _, s := range n.raft.Configuration() {
		out = append(out, consensus.NodeOf(s.ID))
	}
	return out
}

// Routes reports whether the node queues requests of no shard.
func (n *Node) Routes() bool {
	for s := range n.options.Shards {
		if n.router.Table().Route(shardmap.Shard(s)).Kind == route.Queued {
			return false
		}
	}
	return true
}

// GossipTags returns the tags that the node announces in gossip.
func (n *Node) GossipTags() map[string]string {
	t := n.announcer.tags()
	all := map[string]string{
		"v": "2", "node": t.Node, "disk": t.Disk, "cluster": t.Cluster, "shards": strconv.Itoa(t.Shards), "role": t.Role,
		"weight": strconv.FormatUint(uint64(t.Weight), 10), "version": t.Version,
	}
	for name, addr := range t.Endpoints {
		all["ep."+name] = addr
	}
	return all
}

// Lacks reports whether the leader has announced a map that this node does not have.
func (n *Node) Lacks() bool { return n.agent.missingMapSince.Load() != 0 }

// Term returns the Raft term.
func (n *Node) Term() uint64 { return n.raft.Term() }

// Knows returns the node's record of the disk of a server.
func (n *Node) Knows(server string) disk.DiskRecord { return n.diskRecords.Table().Of(server) }

// Server returns the id of the node's Raft server.
func (n *Node) Server() string { return n.serverID }

// LeaveGossip makes the node leave gossip while it continues to run.
func (n *Node) LeaveGossip(ctx context.Context) error { return n.gossip.Leave(ctx) }

// ForgetMember removes a member that is gone from gossip, as happens automatically after an hour.
func (n *Node) ForgetMember(id string) { n.gossip.Forget(id) }

// Stall blocks the node's side of the lease protocol, so that it sends no heartbeats, until release is called.
func (n *Node) Stall() (release func()) {
	further := make(chan struct{})
	n.agent.callRequests <- func() { <-further }
	return func() { close(further) }
}

// AskLeave makes the node ask the leader to remove a server from the configuration.
func (n *Node) AskLeave(ctx context.Context, leader, server string) error {
	return n.client.Call(ctx, leader, control.Request{Kind: control.Leave, Server: server}, nil)
}

// AskForget makes the node ask another node to stop listing a removed one.
func (n *Node) AskForget(ctx context.Context, node, removed string) error {
	return n.client.Call(ctx, node, control.Request{Kind: control.Forget, Server: removed}, nil)
}

// AskCheck makes the node ask another node to check whether it can connect to a third one.
func (n *Node) AskCheck(ctx context.Context, node, suspect string) error {
	return n.client.Call(ctx, node, control.Request{Kind: control.CheckNode, Server: suspect}, nil)
}

// ImplicatedReport is what a node reports to the leader about a node that has crashed.
type ImplicatedReport struct {
	Node string
	Boot uint64
	Ago  time.Duration
	Keys []poison.Implicated
}

// ReportImplicated sends crash reports to the leader, and reports whether the leader received them.
func (n *Node) ReportImplicated(ctx context.Context, all ...ImplicatedReport) bool {
	var told []crashdetect.CrashReport
	for _, t := range all {
		told = append(told, crashdetect.CrashReport{Node: t.Node, Boot: t.Boot, Keys: t.Keys, At: time.Now().Add(-t.Ago)})
	}
	return n.poisonDetector.Report(ctx, told)
}

// ReportBrokenConns does what the proxy does when the connections to a process break.
func (n *Node) ReportBrokenConns(w poison.Crash) { n.poisonDetector.ConnsBroken(w) }

// ProcessBroke reports whether the process ended unplanned.
func (n *Node) ProcessBroke(ctx context.Context, w poison.Crash) bool {
	return n.poisonDetector.HasCrashed(ctx, w)
}

// Ends returns the number of process crashes that were reported to this node as the leader.
func (n *Node) Ends() int { return n.poisonDetector.Len() }

// Suspects returns the number of keys that the leader suspects. says is false if the leader sent no number.
func (n *Node) Suspects(ctx context.Context) (count int, says bool) {
	all := n.poisonDetector.SuspectsOfLeader(ctx)
	return len(all), all != nil
}

// Boot returns the incarnation (boot) of the process.
func (n *Node) Boot() uint64 { return n.options.Dir.Boot() }

// Member returns the gossip state of a node, or "" if gossip has no member of that name.
func (n *Node) Member(id string) string {
	for _, m := range n.gossip.Members() {
		if m.ID == id {
			return m.Status.String()
		}
	}
	return ""
}

// LeaderViewOf returns the view that this node has of another node, if this node leads.
func (n *Node) LeaderViewOf(node string) (leader.MemberView, bool) {
	l := n.leaderRunner.leadership.Load()
	if l == nil {
		return leader.MemberView{}, false
	}
	views, _ := l.View(context.Background())
	return leaderloop.FindMember(views, node)
}

// AskLeader sends the leader the questions that only it can answer. It returns the number of views, whether it received suspects and the
// upgrade status, and the number of streams that the leader has accepted.
func (n *Node) AskLeader(ctx context.Context, leader *Node) (views int, suspects, level bool, streams uint64) {
	before := leader.port.Stats().Accepted
	r := n.monitor.QueryLeader(ctx, n.view.Leader())
	return len(r.Views), r.Suspects != nil, r.Upgrade != nil, leader.port.Stats().Accepted - before
}

// EndLine makes the next query of the leader fail as if the leader had closed the query stream. It returns the number of streams, 0 or 1.
func (n *Node) EndLine() int {
	if n.monitor.ExpireLeaderStream() {
		return 1
	}
	return 0
}

// Line opens a lasting query stream to another node. ask sends one question on it, and end closes it.
func (n *Node) Line(ctx context.Context, other *Node) (ask func() error, end func()) {
	var l control.PersistentStream
	ask = func() error {
		_, err := l.Call(ctx, n.client, string(other.self), control.Request{Kind: control.Load})
		return err
	}
	if err := ask(); err != nil {
		panic(err)
	}
	return ask, l.Close
}

// OpenStreams returns the number of open streams from other nodes.
func (n *Node) OpenStreams() int { return n.port.Stats().Open }

// AcceptedStreams returns the number of streams from other nodes that the node has accepted.
func (n *Node) AcceptedStreams() uint64 { return n.port.Stats().Accepted }

// Several returns the response of the node to several questions in one message.
func (n *Node) Several(ctx context.Context, questions ...string) (errs []string, err string) {
	q := control.Request{Kind: control.Batch}
	for _, what := range questions {
		q.Batch = append(q.Batch, control.Request{Kind: control.Kind(what)})
	}
	b, _ := json.Marshal(q)
	r := control.NewServer(n.handlers(), n.log).Answer(ctx, control.Caller{Node: "x"}, b)
	replies, _ := control.DecodeReply[[]control.Reply](r)
	for _, each := range replies {
		errs = append(errs, each.Error)
	}
	return errs, r.Error
}

// Found returns the result of the monitor's latest evaluation. Each evaluation returns a different value.
func (n *Node) Found() any { return n.monitor.Result() }

// Answered returns the number of the node's heartbeats that a leader has answered.
func (n *Node) Answered() int64 { return n.agent.lastAnswer.Load() }

// HasNoOwners reports that no node may own shards, in which case requests are not queued.
func (n *Node) HasNoOwners() bool { return n.monitor.Result().NoOwners }

// NotAcquired reports to the node that its app does not hold a shard.
func (n *Node) NotAcquired(s shardmap.Shard, epoch uint64) {
	n.agent.hooks.recordNotAcquired(s, shardmap.Epoch(epoch))
}

// Lookup returns the peer address at which this node dials another one.
func (n *Node) Lookup(node string) string {
	addr, _ := n.view.Lookup(node)
	return addr
}
