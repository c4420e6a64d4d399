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

// membersEvery is how often the leader compares Raft's configuration with the
// nodes that gossip shows. One change is made at a time.
const membersEvery = 100 * time.Millisecond

// keepMembers adds nodes to Raft's configuration, makes them voters, and puts a
// node's new disk in the place of its old one, while this node leads.
func (n *Node) keepMembers(ctx context.Context, l *leading) {
	t := time.NewTicker(membersEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.done:
			return
		case <-t.C:
		}
		for n.fsm.state.Load().Born() && n.changeMembers(ctx, l) {
		}
	}
}

// changeMembers makes the next change and reports whether there may be another.
func (n *Node) changeMembers(ctx context.Context, l *leading) bool {
	views, ok := l.view(ctx)
	if !ok {
		return false
	}
	c := n.nextChange(l, views)
	if c.do == nil {
		return false
	}
	if err := c.do(); err != nil {
		l.log.Warn().Err(err).Str("server", c.server).Str("change", c.what).Msg("configuration not changed")
		return false
	}
	l.log.Info().Str("server", c.server).Str("change", c.what).Msg("configuration changed")
	return true
}

// change is one step of Raft's configuration.
type change struct {
	what, server string
	do           func() error
}

// nextChange picks the next step: a replaced disk first, then a new server, then
// a voter.
func (n *Node) nextChange(l *leading, views []ack.MemberView) change {
	voters, others := n.servers()
	all := slices.Concat(voters, others)
	ours := n.fsm.state.Load().Cluster()
	for _, m := range n.gossip.Members() {
		if !m.Node || m.Err != nil || disk.CheckNodeID(m.ID) != nil || m.Status != gossip.Alive || m.Tags.Disk == "" || m.Tags.Cluster != "" && m.Tags.Cluster != ours {
			continue
		}
		server := serverID(m.ID, m.Tags.Disk)
		if slices.Contains(all, server) {
			continue
		}
		if old := serverOf(all, m.ID); old != "" {
			// The disk that the old server's log was on is gone: it must not
			// vote again, and its successor starts without a vote.
			return change{"remove", old, func() error { return n.raft.Remove(old) }}
		}
		return change{"add", server, func() error { return n.raft.AddNonvoter(server) }}
	}
	if len(voters) >= n.o.Voters {
		return n.deadServer(l, voters, views)
	}
	for _, server := range others {
		v, _ := viewOf(views, nodeOf(server))
		if n.caughtUp(server, v) {
			return change{"promote", server, func() error { return n.raft.Promote(server) }}
		}
	}
	return n.deadServer(l, voters, views)
}

// caughtUp reports whether a server has the log to its present end: all that
// this log carries are maps, and its node has applied the last one.
func (n *Node) caughtUp(server string, v ack.MemberView) bool {
	s := n.fsm.state.Load()
	hb := v.Heartbeat
	return v.HeardAgo >= 0 && !v.Silent && hb.Server == server && !hb.Leaving && !hb.Goodbye &&
		hb.Applied >= s.Committed().Epoch() && (hb.Gateway || hb.Acked >= s.Committed().Epoch())
}

// deadServer picks a server that has been dead for dead-server-after, if that is
// asked for and quorum is to spare.
func (n *Node) deadServer(l *leading, voters []string, views []ack.MemberView) change {
	if n.o.DeadServerAfter <= 0 || len(voters) <= 3 {
		return change{}
	}
	heard := 0
	for _, server := range voters {
		if v, _ := viewOf(views, nodeOf(server)); !v.Silent {
			heard++
		}
	}
	for _, server := range voters {
		v, _ := viewOf(views, nodeOf(server))
		gone := v.HeardAgo
		if gone < 0 { // this leader never heard it
			gone = time.Since(l.elected)
		}
		if gone > n.o.DeadServerAfter && heard > len(voters)/2 {
			return change{"remove", server, func() error { return n.raft.Remove(server) }}
		}
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
	remain := 0
	for _, v := range voters {
		view, _ := viewOf(views, nodeOf(v))
		if v != server && !view.Silent && !view.Heartbeat.Leaving && !view.Heartbeat.Goodbye {
			remain++
		}
	}
	return slices.Contains(voters, server) && remain >= 3
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
