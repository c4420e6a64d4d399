package node

import (
	"context"
	"slices"
	"strings"
	"time"

	"shardway/ack"
	"shardway/node/disk"
	"shardway/node/gossip"
)

const (
	// membersEvery is how often the leader compares Raft's configuration with the
	// nodes that gossip shows. One change is made at a time.
	membersEvery = 100 * time.Millisecond
	// confirmEvery is how often a node is asked whether it is what gossip says, and
	// for how long.
	confirmEvery = time.Second
	// fewestVoters is how many voters there must be for one to be taken out
	// unasked, not counting that one.
	fewestVoters = 3
)

// keeper keeps Raft's configuration while this node leads: it adds nodes, makes
// them voters, puts a node's new disk in the place of its old one, and takes out
// who has been dead for long.
//
// Gossip only gives hints: it can be replayed. What it says of a server is acted
// upon once the node has said so itself, on the peer port, and nothing of it takes
// out a server whose own heartbeats come.
type keeper struct {
	n *Node
	l *leading
	// absent is for how long each server has not been heard, as far as this leader
	// has looked: a time in which it did not run counts for nobody's absence.
	absent map[string]time.Duration
	looked time.Time
	// asked is when each server that only gossip shows was last asked.
	asked map[string]time.Time
}

func newKeeper(n *Node, l *leading) *keeper {
	return &keeper{n: n, l: l, absent: map[string]time.Duration{}, looked: time.Now(), asked: map[string]time.Time{}}
}

// run returns when the leadership ends.
func (k *keeper) run(ctx context.Context) {
	t := time.NewTicker(membersEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.l.done:
			return
		case <-t.C:
		}
		for k.n.fsm.state.Load().Born() && k.change(ctx) {
		}
	}
}

// change makes the next change and reports whether there may be another.
func (k *keeper) change(ctx context.Context) bool {
	views, ok := k.l.view(ctx)
	if !ok {
		return false
	}
	voters, others := k.n.servers()
	r := roster{views: views, voters: voters, others: others}
	k.look(r)
	c := k.next(ctx, r)
	if c.do == nil {
		return false
	}
	if err := c.do(c.server); err != nil {
		k.l.log.Warn().Err(err).Str("server", c.server).Str("change", c.what).Msg("configuration not changed")
		return false
	}
	k.l.log.Info().Str("server", c.server).Str("change", c.what).Msg("configuration changed")
	return true
}

// look adds up the absence of every server.
func (k *keeper) look(r roster) {
	now := time.Now()
	passed := min(now.Sub(k.looked), 2*membersEvery)
	k.looked = now
	before := k.absent
	k.absent = make(map[string]time.Duration, len(before))
	for _, server := range r.all() {
		if !r.hears(server) {
			k.absent[server] = before[server] + passed
		}
	}
}

// roster is Raft's configuration, and what the leader has heard of its servers.
type roster struct {
	views          []ack.MemberView
	voters, others []string
}

func (r roster) all() []string { return slices.Concat(r.voters, r.others) }

// hears reports that the heartbeats of this very server are fresh.
func (r roster) hears(server string) bool {
	v, ok := viewOf(r.views, nodeOf(server))
	return ok && v.HeardAgo >= 0 && !v.Silent && v.Heartbeat.Server == server
}

// over reports that nothing may run on this server's disk any more, so that another
// disk may take the node's name: what it did would have the same epochs.
func (r roster) over(server string) bool {
	v, ok := viewOf(r.views, nodeOf(server))
	return !r.hears(server) && (!ok || v.Over)
}

// change is one step of Raft's configuration.
type change struct {
	what, server string
	do           func(server string) error
}

// next picks the next step: a replaced disk first, then a new server, then a
// voter, then a dead one.
func (k *keeper) next(ctx context.Context, r roster) change {
	all := r.all()
	for _, m := range k.n.gossip.Members() {
		if !k.n.may(m) {
			continue
		}
		server := serverID(m.ID, m.Tags.Disk)
		if slices.Contains(all, server) {
			continue
		}
		old := serverOf(all, m.ID)
		if old != "" && !r.over(old) || !k.confirmed(ctx, m) {
			continue
		}
		if old != "" {
			// The disk that the old server's log was on is gone: it must not
			// vote again, and its successor starts without a vote.
			return change{"remove", old, k.n.raft.Remove}
		}
		return change{"add", server, k.n.raft.AddNonvoter}
	}
	if len(r.voters) < k.n.o.Voters {
		if spare := k.spare(r); spare != "" {
			return change{"promote", spare, k.n.raft.Promote}
		}
	}
	return k.dead(r)
}

// may reports whether gossip shows a node that this cluster may have.
func (n *Node) may(m gossip.Member) bool {
	return m.Node && m.Err == nil && disk.CheckNodeID(m.ID) == nil && m.Status == gossip.Alive && m.Tags.Disk != "" &&
		(m.Tags.Cluster == "" || m.Tags.Cluster == n.fsm.state.Load().Cluster())
}

// confirmed reports that a node says itself that it has the disk that gossip
// tells of. It is asked now and then.
func (k *keeper) confirmed(ctx context.Context, m gossip.Member) bool {
	server := serverID(m.ID, m.Tags.Disk)
	if last, ok := k.asked[server]; ok && time.Since(last) < confirmEvery {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, confirmEvery)
	defer cancel()
	var there whoami
	err := k.n.ask(ctx, m.ID, request{What: askWho}, &there)
	if err == nil && there.Disk == m.Tags.Disk {
		delete(k.asked, server)
		return true
	}
	k.asked[server] = time.Now()
	k.l.log.Debug().Err(err).Str("server", server).Str("disk", there.Disk).Msg("gossip shows a server that its node does not confirm")
	return false
}

// spare returns a server without a vote that may have one, or "".
func (k *keeper) spare(r roster) string {
	i := slices.IndexFunc(r.others, func(server string) bool { return r.hears(server) && k.n.caughtUp(server, r.views) })
	if i < 0 {
		return ""
	}
	return r.others[i]
}

// caughtUp reports whether a server has the log to its present end: all that
// this log carries are maps, and its node has applied the last one.
func (n *Node) caughtUp(server string, views []ack.MemberView) bool {
	s := n.fsm.state.Load()
	v, _ := viewOf(views, nodeOf(server))
	hb := v.Heartbeat
	return !hb.Leaving && !hb.Goodbye && hb.Applied >= s.Committed().Epoch() && (hb.Gateway || hb.Acked >= s.Committed().Epoch())
}

// dead picks what is to be done about a server that has been dead for
// dead-server-after, if that is asked for. The place of a voter is filled first, so
// that there are never fewer; with no spare for it, it goes if enough are left. A
// server without a vote goes unless gossip still shows its node: it would be added
// again.
func (k *keeper) dead(r roster) change {
	if k.n.o.DeadServerAfter <= 0 {
		return change{}
	}
	gone := func(server string) bool { return k.absent[server] > k.n.o.DeadServerAfter }
	if i := slices.IndexFunc(r.others, func(s string) bool { return gone(s) && !k.n.alive(nodeOf(s)) }); i >= 0 {
		return change{"remove", r.others[i], k.n.raft.Remove}
	}
	i := slices.IndexFunc(r.voters, gone)
	if i < 0 {
		return change{}
	}
	left, heard := 0, 0
	for _, server := range r.voters {
		if !gone(server) {
			left++
		}
		if r.hears(server) {
			heard++
		}
	}
	if spare := k.spare(r); spare != "" && left < min(k.n.o.Voters, len(r.voters)) {
		return change{"promote", spare, k.n.raft.Promote}
	}
	if len(r.voters) > fewestVoters && heard > len(r.voters)/2 {
		return change{"remove", r.voters[i], k.n.raft.Remove}
	}
	return change{}
}

// mayLeave reports whether a stopping node's server may be taken out of the
// configuration: a voter only if at least three voters remain that are heard and
// do not leave themselves.
func (n *Node) mayLeave(server string, views []ack.MemberView) bool {
	voters, others := n.servers()
	if slices.Contains(others, server) {
		return true
	}
	r := roster{views: views, voters: voters, others: others}
	remain := 0
	for _, v := range voters {
		view, _ := viewOf(views, nodeOf(v))
		if v != server && r.hears(v) && !view.Heartbeat.Leaving && !view.Heartbeat.Goodbye {
			remain++
		}
	}
	return slices.Contains(voters, server) && remain >= fewestVoters
}

// servers returns the ids of Raft's servers, the latest configuration in the own
// log: those that vote and the others.
func (n *Node) servers() (voters, others []string) {
	for _, s := range n.raft.Configuration() {
		if s.Voter {
			voters = append(voters, s.ID)
		} else {
			others = append(others, s.ID)
		}
	}
	return voters, others
}

// serverID is the Raft server id of a node with a disk.
func serverID(node, disk string) string { return node + "/" + disk }

// nodeOf returns the node of a Raft server id.
func nodeOf(server string) string {
	node, _, _ := strings.Cut(server, "/")
	return node
}

// serverOf returns the server of a node, or "".
func serverOf(servers []string, node string) string {
	if i := slices.IndexFunc(servers, func(s string) bool { return nodeOf(s) == node }); i >= 0 {
		return servers[i]
	}
	return ""
}
