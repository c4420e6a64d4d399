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
	"shardway/node/leaderloop"
	"shardway/proxy"
	"shardway/proxy/route"
	"shardway/shardmap"
)

var errKilled = errors.New("killed by the test")

// Kill stops the node as a crash does: nothing is handed over.
func (n *Node) Kill() { n.fail(errKilled) }

// Mark returns the shard and the key_hash of a key.
func (n *Node) Mark(key string) (shard uint32, hash string) { return n.hasher.Mark(key) }

// TakeSnapshot writes a snapshot of the replicated state, from which the next start begins.
func (n *Node) TakeSnapshot() error { return n.raft.Snapshot() }

// HoldLog makes f run before each log entry is applied.
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

// Run1 begins a request for s as the proxy does, for a test to end with release.
func (n *Node) Run1(s shardmap.Shard) (release func(), ok bool) {
	_, release, err := n.router.Admit(s)
	return release, err == nil
}

// Explain says what is the matter where a request is held for this reason.
func (n *Node) Explain(why route.Reason) proxy.Explanation { return n.monitor.Explain(why) }

// Known returns the state that the node's log has come to.
func (n *Node) Known() *ack.State { return n.fsm.state.Load() }

// State returns the state that the node routes by.
func (n *Node) State() *ack.State { return n.router.State() }

// Table returns the routing table of this moment.
func (n *Node) Table() *route.Table { return n.router.Table() }

// Leased reports whether the node holds a lease.
func (n *Node) Leased() bool { return n.router.HasLease() }

// LeaseLeft returns how much of its lease is left.
func (n *Node) LeaseLeft() time.Duration { return n.router.LeaseLeft() }

// Leads reports whether the node runs the leader's part.
func (n *Node) Leads() bool { return n.leadership.Load() != nil }

// Voters returns the nodes that vote, as the latest configuration in the own log has it.
func (n *Node) Voters() []string {
	voters, _ := n.view.Servers()
	for i, v := range voters {
		voters[i] = consensus.NodeOf(v)
	}
	return voters
}

// SendLeaveNotice makes the node report that it serves no requests any more.
func (n *Node) SendLeaveNotice() {
	n.agent.SayGoodbye()
}

// GoneFrom tells of a request for a shard that went to a node whether a state says that
// it may never be answered.
func GoneFrom(s *ack.State, sh shardmap.Shard, node string) bool { return orphanedIn(s, 0)(sh, node) }

// Forwarded counts the requests that wait for an answer of another node.
func (n *Node) Forwarded(node string) (count int) {
	n.proxy.CancelForwarded(func(_ shardmap.Shard, to string) bool {
		if to == node {
			count++
		}
		return false
	})
	return count
}

// Promised returns whom this node lets found the cluster, "" for nobody.
func (n *Node) Promised() string {
	to, _ := n.bootstrapper.PromisedTo()
	return to
}

// Servers returns the nodes whose servers are in Raft's configuration.
func (n *Node) Servers() (out []string) {
	for _, s := range n.raft.Configuration() {
		out = append(out, consensus.NodeOf(s.ID))
	}
	return out
}

// Routes reports whether the node holds no shard back.
func (n *Node) Routes() bool {
	for s := range n.o.Shards {
		if n.router.Table().Route(shardmap.Shard(s)).Kind == route.Held {
			return false
		}
	}
	return true
}

// GossipTags returns what the node's gossip says about it.
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

// Lacks reports whether the leader has spoken of a map that is not here.
func (n *Node) Lacks() bool { return n.agent.missingMapSince.Load() != 0 }

// Term returns the Raft term.
func (n *Node) Term() uint64 { return n.raft.Term() }

// Knows returns what the node knows of a server's disk.
func (n *Node) Knows(server string) disk.DiskRecord { return n.diskRecords.Table().Of(server) }

// Server returns the id of the node's Raft server.
func (n *Node) Server() string { return n.serverID }

// LeaveGossip has gossip show the node as one that has left, while it goes on.
func (n *Node) LeaveGossip(ctx context.Context) error { return n.gossip.Leave(ctx) }

// ForgetMember has gossip forget a member that is gone, as it does by itself an hour later.
func (n *Node) ForgetMember(id string) { n.gossip.Forget(id) }

// Stall has the node's own side of the protocol stand still, so that it sends no
// heartbeats, until release is called.
func (n *Node) Stall() (release func()) {
	further := make(chan struct{})
	n.agent.calls <- func() { <-further }
	return func() { close(further) }
}

// AskLeave has the node ask the leader to take a server out of the configuration.
func (n *Node) AskLeave(ctx context.Context, leader, server string) error {
	return n.client.Call(ctx, leader, control.Request{Kind: control.Leave, Server: server}, nil)
}

// AskForget has the node ask another to show a third no more.
func (n *Node) AskForget(ctx context.Context, node, removed string) error {
	return n.client.Call(ctx, node, control.Request{Kind: control.Forget, Server: removed}, nil)
}

// ImplicatedReport is what a node reports to the leader about a node that has crashed.
type ImplicatedReport struct {
	Node string
	Boot uint64
	Ago  time.Duration
	Keys []proxy.Implicated
}

// ReportImplicated sends crash reports to the leader, and reports whether the leader received them.
func (n *Node) ReportImplicated(ctx context.Context, all ...ImplicatedReport) bool {
	var told []crashdetect.CrashReport
	for _, t := range all {
		told = append(told, crashdetect.CrashReport{Node: t.Node, Boot: t.Boot, Keys: t.Keys, At: time.Now().Add(-t.Ago)})
	}
	return n.poisonDetector.Report(ctx, told)
}

// ReportBrokenConns does what the proxy does when connections to a process have broken.
func (n *Node) ReportBrokenConns(w proxy.Crash) { n.poisonDetector.ConnsBroken(w) }

// ProcessBroke reports whether the crashed process is gone, and not by plan.
func (n *Node) ProcessBroke(ctx context.Context, w proxy.Crash) bool {
	return n.poisonDetector.HasCrashed(ctx, w)
}

// Ends counts the ends of processes that this node was told of as the leader.
func (n *Node) Ends() int { return n.poisonDetector.Len() }

// Suspects returns how many keys the leader suspects; it says false if the leader says
// nothing.
func (n *Node) Suspects(ctx context.Context) (count int, says bool) {
	all := n.poisonDetector.SuspectsOfLeader(ctx)
	return len(all), all != nil
}

// Boot returns the boot of the process.
func (n *Node) Boot() uint64 { return n.o.Dir.Boot() }

// Member returns what gossip says of a node, "" if it knows none of that name.
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
	l := n.leadership.Load()
	if l == nil {
		return leader.MemberView{}, false
	}
	views, _ := l.View(context.Background())
	return leaderloop.ViewOf(views, node)
}

// AskLeader asks the leader what only it knows, and returns how much it said, and by how
// many streams of the leader's.
func (n *Node) AskLeader(ctx context.Context, leader *Node) (views int, suspects, level bool, streams uint64) {
	before := leader.port.Stats().Accepted
	r := n.monitor.QueryLeader(ctx, n.view.Leader())
	return len(r.Views), r.Suspects != nil, r.Upgrade != nil, leader.port.Stats().Accepted - before
}

// EndLine has the stream by which the node asks its leader take one more question, and end then as if
// the other side had before. It returns how many there were.
func (n *Node) EndLine() int {
	if n.monitor.ExpireLeaderStream() {
		return 1
	}
	return 0
}

// Line asks another node something by a stream of its own that is kept, and returns what does so
// again, and what ends it.
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

// OpenStreams returns how many streams of others are open.
func (n *Node) OpenStreams() int { return n.port.Stats().Open }

// AcceptedStreams returns how many streams of others the node has accepted so far.
func (n *Node) AcceptedStreams() uint64 { return n.port.Stats().Accepted }

// Several is the reply of a node to several questions.
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

// Found returns what the last look at what can be the matter came to; another one, another value.
func (n *Node) Found() any { return n.monitor.Result() }

// Answered returns how many heartbeats of the node a leader has answered.
func (n *Node) Answered() int64 { return n.agent.lastAnswer.Load() }

// HasNoOwners reports that no node may own shards. Requests do not wait then.
func (n *Node) HasNoOwners() bool { return n.monitor.Result().NoOwners }

// NotAcquired tells the node that its app does not hold a shard.
func (n *Node) NotAcquired(s shardmap.Shard, epoch uint64) {
	n.agent.hooks.recordNotAcquired(s, shardmap.Epoch(epoch))
}

// Lookup returns the peer address at which this node looks for another one.
func (n *Node) Lookup(node string) string {
	addr, _ := n.view.Lookup(node)
	return addr
}
