package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"shardway/ack/election"
	"shardway/node/consensus"
	"shardway/node/control"
	"shardway/peer"
)

// suspicionTimeoutBeats is the timeout of the request to a voter, as a number of heartbeat intervals. A
// later response would be out of date.
const suspicionTimeoutBeats = 1

// leaderSuspicion starts an election when most voters receive no responses from the leader, without
// waiting for Raft's election timeout. A voter suspects its leader if the leader does not respond to its
// heartbeats. Then leaderSuspicion asks the other voters whether they suspect the leader, too.
// election.Suspicion decides when this node campaigns. Only the goroutine of agent.run uses machine:
// responses of other voters are passed to it through agent.call.
type leaderSuspicion struct {
	n           *Node
	machine     *election.Suspicion
	ctx         context.Context // the context of agent.run, which also bounds all requests
	checkedTerm uint64          // term of the last suspected leader that was checked

	mu struct {
		sync.Mutex
		asking map[string]bool // servers with a request in progress
	}
}

// suspicionRaft adapts the Raft server to election.Suspicion.
type suspicionRaft struct{ *consensus.Raft }

// LogEnd returns the term and the index of the last log entry.
func (v suspicionRaft) LogEnd() election.LogEnd {
	term, index := v.Raft.LastEntry()
	return election.LogEnd{Term: term, Index: index}
}

// Leader returns the server ID of the leader; empty means that there is none.
func (v suspicionRaft) Leader() string { return v.LeaderServer() }

// newLeaderSuspicion creates the leaderSuspicion of n. Raft must have started.
func newLeaderSuspicion(n *Node) *leaderSuspicion {
	d := &leaderSuspicion{n: n, machine: election.New(election.Options{
		Server: n.server, Heartbeat: n.o.Pace.Heartbeat, Raft: suspicionRaft{n.raft},
	}, n.o.Clock.Precise())}
	d.mu.asking = map[string]bool{}
	return d
}

// poll updates the failure detector, sends the requests that the machine asks for, and campaigns if
// the machine decides so. agent.poll calls it.
func (d *leaderSuspicion) poll(now time.Duration) {
	unanswered := d.n.agent.machine.UnansweredHeartbeat()
	if d.n.raft.IsLeader() {
		unanswered = election.UnansweredHeartbeat{} // a leader does not suspect itself, but the other voters may suspect it
	}
	ask, campaign := d.machine.Poll(now, unanswered)
	for _, server := range ask {
		d.askVoter(server, now)
	}
	if campaign {
		d.campaign(d.machine.Report().LeaderTerm)
	}
	if term := d.machine.Report().LeaderTerm; term > d.checkedTerm {
		d.checkedTerm = term
		d.checkLeader(term, d.n.raft.LeaderServer())
	}
}

// leaderResponseTimeout is the timeout of the request to a suspected leader. A leader that responds at
// all was suspected wrongly, so the timeout is long.
const leaderResponseTimeout = time.Second

// checkLeader checks in the background whether the suspected leader of a term responds to a request. If
// it does, the failure detector is informed.
func (d *leaderSuspicion) checkLeader(term uint64, leader string) {
	ctx, cancel := context.WithTimeout(d.ctx, leaderResponseTimeout)
	d.n.asks.Go(func() {
		defer cancel()
		if _, err := d.n.queryMissing(ctx, leader); err == nil {
			d.n.agent.call(ctx, func() { d.machine.LeaderAlive(d.n.agent.beginTurn(), term) })
		}
	})
}

// askVoter asks a voter in the background whether it suspects the leader. It does nothing if a request
// to this voter is already in progress. now is passed to the machine together with the response.
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
		m, err := d.n.queryMissing(ctx, server)
		if err != nil {
			d.n.log.Debug().Err(err).Str("peer", server).Msg("no response about the leader")
			return
		}
		d.n.agent.call(ctx, func() { d.machine.ReportReceived(now, server, m) })
	})
}

// queryMissing asks a voter whether it suspects its leader. It verifies that the process at the address
// has the expected disk, because the response of another process is not the vote of this server. A node
// that does not support the request returns an error, which counts as no suspicion.
func (n *Node) queryMissing(ctx context.Context, server string) (m election.Report, err error) {
	var w wireMissing
	err = n.client.CallFunc(ctx, consensus.NodeOf(server), func(c *peer.Conn) (control.Request, error) {
		if there := consensus.ServerID(c.Node(), c.Peer().Disk); there != server {
			return control.Request{}, fmt.Errorf("node: %q is there in the place of %q", there, server)
		}
		return control.Request{Kind: control.Missing}, nil
	}, &w)
	return w.missing(), err
}

// reportSuspicion returns the report of this node, which contains whether it suspects its leader. server
// is the requester. It suspects the leader, so the machine records its request as well.
func (n *Node) reportSuspicion(ctx context.Context, server string) (m election.Report, err error) {
	report := make(chan election.Report, 1)
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

// call passes f to the goroutine of agent.run, which calls it. It reports whether that goroutine has
// accepted f, and does not wait until f has returned.
func (a *agent) call(ctx context.Context, f func()) bool {
	select {
	case a.calls <- f:
		return true
	case <-a.ended:
	case <-ctx.Done():
	}
	return false
}

// campaign starts an election against the leader of a term, which most voters suspect.
func (d *leaderSuspicion) campaign(term uint64) {
	n := d.n
	if n.stopping.Load() {
		d.machine.CampaignRefused(n.agent.beginTurn(), term) // otherwise the other voters would wait for this node
		return
	}
	leader := n.raft.Leader()
	n.asks.Go(func() {
		n.log.Info().Str("leader", leader).Uint64("term", term).Msg("leader unreachable for most voters, campaigning")
		if err := n.campaignInTerm(causeMissed, term); err != nil && !errors.Is(err, consensus.ErrTooLate) {
			n.agent.call(d.ctx, func() { d.machine.CampaignRefused(n.agent.beginTurn(), term) })
		}
	})
}
