package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"shardway/ack"
	"shardway/node/consensus"
	"shardway/peer"
)

// doubtLimit is how long a voter may take to say whether it misses its leader, in
// heartbeats: what comes later counts for nothing, for it may be over.
const suspicionTimeoutBeats = 1

// doubts asks the other voters whether they miss the leader, too, and has this node
// stand for election when ack.Doubt says so. The agent's goroutine owns the machine; what
// others reply comes to it by agent.asked.
type leaderSuspicion struct {
	n           *Node
	machine     *ack.LeaderSuspicion
	ctx         context.Context // of the agent's run: questions end with it
	checkedTerm uint64          // the term of the last leader that was called because it was missed

	mu struct {
		sync.Mutex
		asking map[string]bool // by server: a question is under way
	}
}

// voting is the node's Raft server, as its Doubt reads it.
type suspicionRaft struct{ *consensus.Raft }

func (v suspicionRaft) LogEnd() ack.LogEnd {
	term, index := v.Raft.LogEnd()
	return ack.LogEnd{Term: term, Index: index}
}

func (v suspicionRaft) Leader() string { return v.LeaderServer() }

// newDoubts is for a node whose Raft is open.
func newLeaderSuspicion(n *Node) *leaderSuspicion {
	d := &leaderSuspicion{n: n, machine: ack.NewLeaderSuspicion(ack.LeaderSuspicionOptions{
		Server: n.server, Heartbeat: n.o.Pace.Heartbeat, Raft: suspicionRaft{n.raft},
	}, n.o.Clock.Precise())}
	d.mu.asking = map[string]bool{}
	return d
}

// look is the agent's, as often as it looks.
func (d *leaderSuspicion) poll(now time.Duration) {
	unanswered := d.n.agent.machine.Unanswered()
	if d.n.raft.IsLeader() {
		unanswered = ack.UnansweredHeartbeat{} // whom it does not answer itself, others may miss
	}
	ask, stand := d.machine.Poll(now, unanswered)
	for _, server := range ask {
		d.askVoter(server, now)
	}
	if stand {
		d.campaign(d.machine.Report().LeaderTerm)
	}
	if term := d.machine.Report().LeaderTerm; term > d.checkedTerm {
		d.checkedTerm = term
		d.checkLeader(term, d.n.raft.LeaderServer())
	}
}

// leaderLimit is how long a leader that is missed may take to speak: one that does was
// there all the time.
const leaderResponseTimeout = time.Second

// call finds out, in the background, whether a leader that is missed speaks.
func (d *leaderSuspicion) checkLeader(term uint64, leader string) {
	ctx, cancel := context.WithTimeout(d.ctx, leaderResponseTimeout)
	d.n.asks.Go(func() {
		defer cancel()
		if _, err := d.n.askMissing(ctx, leader); err == nil {
			d.n.agent.call(ctx, func() { d.machine.LeaderAlive(d.n.agent.beginTurn(), term) })
		}
	})
}

// ask asks a server in the background, once at a time.
func (d *leaderSuspicion) askVoter(server string, now time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.asking[server] {
		return
	}
	d.mu.asking[server] = true
	ctx, cancel := context.WithTimeout(d.ctx, suspicionTimeoutBeats*d.n.o.Pace.Heartbeat)
	d.n.asks.Go(func() {
		defer cancel()
		defer func() {
			d.mu.Lock()
			delete(d.mu.asking, server)
			d.mu.Unlock()
		}()
		m, err := d.n.askMissing(ctx, server)
		if err != nil {
			d.n.log.Debug().Err(err).Str("peer", server).Msg("no response about the leader")
			return
		}
		d.n.agent.call(ctx, func() { d.machine.ReportReceived(now, server, m) })
	})
}

// askMissing asks a voter whether it misses its leader. A node that does not know the
// question misses nobody.
func (n *Node) askMissing(ctx context.Context, server string) (m ack.SuspicionReport, err error) {
	var w wireMissing
	err = n.askThat(ctx, nodeOf(server), func(c *peer.Conn) (request, error) {
		if there := serverID(c.Node(), c.Peer().Disk); there != server {
			return request{}, fmt.Errorf("node: %q is there in the place of %q", there, server)
		}
		return request{What: askMissing}, nil
	}, &w)
	return w.missing(), err
}

// missing says whether this node misses its leader, to one who asks because it does.
func (n *Node) reportSuspicion(ctx context.Context, server string) (m ack.SuspicionReport, err error) {
	report := make(chan ack.SuspicionReport, 1)
	called := n.agent.call(ctx, func() { //nolint:contextcheck // what this node asks in turn ends with its own run
		d, now := n.agent.suspicion, n.agent.beginTurn()
		d.poll(now)
		d.machine.ReportRequested(now, server)
		d.poll(now)
		report <- d.machine.Report()
	})
	if !called {
		return m, fmt.Errorf("node: %s does not say whether it misses its leader", n.self)
	}
	return <-report, nil
}

// do has the agent's goroutine do something, and reports whether it has taken it.
func (a *agent) call(ctx context.Context, f func()) bool {
	select {
	case a.calls <- f:
		return true
	case <-a.ended:
	case <-ctx.Done():
	}
	return false
}

// stand makes this node stand for election against the leader of a term, which most voters
// miss.
func (d *leaderSuspicion) campaign(term uint64) {
	n := d.n
	if n.stopping.Load() {
		d.machine.CampaignRefused(n.agent.beginTurn(), term) // or the others would wait for it
		return
	}
	leader := n.raft.Leader()
	n.asks.Go(func() {
		n.log.Info().Str("leader", leader).Uint64("term", term).Msg("leader unreachable for most voters, campaigning")
		if err := n.standFor(causeMissed, term); err != nil && !errors.Is(err, consensus.ErrTooLate) {
			n.agent.call(d.ctx, func() { d.machine.CampaignRefused(n.agent.beginTurn(), term) })
		}
	})
}
