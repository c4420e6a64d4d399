package campaign

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack/election"
	"shardway/internal/clock"
	"shardway/node/consensus"
	"shardway/node/control"
	"shardway/peer"
	"shardway/shardmap"
)

// requestTimeoutBeats is the timeout of a request to a voter, in heartbeat intervals. A later response would be
// outdated.
const requestTimeoutBeats = 1

// Agent is this node's side of the lease protocol.
type Agent interface {
	// Call makes the agent's goroutine call f. It reports whether that goroutine accepted f, and does not wait for
	// f to return.
	Call(ctx context.Context, f func()) bool
	// BeginTurn returns the time. Only the goroutine of the agent may call it, before each input of a
	// machine.
	BeginTurn() time.Duration
	// Unanswered returns the oldest heartbeat to which the leader has not responded. Only the goroutine of
	// the agent may call it.
	Unanswered() election.UnansweredHeartbeat
}

// SuspicionOptions contains what a Suspicion needs of its node.
type SuspicionOptions struct {
	Self shardmap.NodeID
	// Server is the Raft server ID of this node.
	Server string
	// HeartbeatInterval is the interval of the heartbeats of this node.
	HeartbeatInterval time.Duration
	Clock             clock.Clock
	Campaigner        *Campaigner
	Agent             Agent
	Client            *control.Client
	// Background contains the goroutines that end when Raft stops.
	Background *sync.WaitGroup
	Log        zerolog.Logger
}

// Suspicion starts an election when most voters receive no responses from the leader, without waiting for Raft's
// election timeout. A voter suspects its leader if the leader does not respond to its heartbeats. Suspicion then
// asks the other voters whether they suspect the leader, too, and election.Suspicion decides when this node
// campaigns. Only the goroutine of the agent uses machine: responses of other voters are passed to it through
// Agent.Call.
type Suspicion struct {
	o           SuspicionOptions
	raft        *consensus.Raft
	machine     *election.Suspicion
	ctx         context.Context // bounds all requests
	checkedTerm uint64          // term of the last suspected leader that was checked

	mu struct {
		sync.Mutex
		asking map[string]bool // servers with a request in progress
	}
}

// raftAdapter adapts the Raft server to election.Suspicion.
type raftAdapter struct{ *consensus.Raft }

// LogEnd returns the term and the index of the last log entry.
func (a raftAdapter) LogEnd() election.LogEnd {
	term, index := a.LastEntry()
	return election.LogEnd{Term: term, Index: index}
}

// Leader returns the server ID of the leader; empty means that there is none.
func (a raftAdapter) Leader() string { return a.LeaderServer() }

// NewSuspicion creates a Suspicion. Raft must have started.
func NewSuspicion(o SuspicionOptions) *Suspicion {
	raft := o.Campaigner.Raft
	s := &Suspicion{o: o, raft: raft, machine: election.New(election.Options{
		Server: o.Server, Heartbeat: o.HeartbeatInterval, Raft: raftAdapter{raft},
	}, o.Clock.Precise())}
	s.mu.asking = map[string]bool{}
	return s
}

// Start sets the context that bounds all requests. The caller must call it before Poll.
func (s *Suspicion) Start(ctx context.Context) { s.ctx = ctx }

// Poll updates the failure detector, sends the requests that the machine asks for, and campaigns if the machine
// decides to. The agent calls it in each turn.
func (s *Suspicion) Poll(now time.Duration) {
	unanswered := s.o.Agent.Unanswered()
	if s.raft.IsLeader() {
		unanswered = election.UnansweredHeartbeat{} // a leader does not suspect itself, though the other voters may
	}
	ask, campaign := s.machine.Poll(now, unanswered)
	for _, server := range ask {
		s.askVoter(server, now)
	}
	if campaign {
		s.campaign(s.machine.Report().LeaderTerm)
	}
	if term := s.machine.Report().LeaderTerm; term > s.checkedTerm {
		s.checkedTerm = term
		s.checkLeader(term, s.raft.LeaderServer())
	}
}

// leaderResponseTimeout is the timeout of a request to a suspected leader. It is long because a leader that
// responds at all was wrongly suspected.
const leaderResponseTimeout = time.Second

// checkLeader checks in the background whether the suspected leader of a term responds to a request. If
// it does, the failure detector is informed.
func (s *Suspicion) checkLeader(term uint64, leader string) {
	ctx, cancel := context.WithTimeout(s.ctx, leaderResponseTimeout)
	s.o.Background.Go(func() {
		defer cancel()
		if _, err := s.requestReport(ctx, leader); err == nil {
			s.o.Agent.Call(ctx, func() { s.machine.LeaderAlive(s.o.Agent.BeginTurn(), term) })
		}
	})
}

// askVoter asks a voter in the background whether it suspects the leader. It does nothing if a request
// to this voter is already in progress. now is passed to the machine together with the response.
func (s *Suspicion) askVoter(server string, now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.asking[server] {
		return
	}
	s.mu.asking[server] = true
	ctx, cancel := context.WithTimeout(s.ctx, requestTimeoutBeats*s.o.HeartbeatInterval)
	s.o.Background.Go(func() {
		defer cancel()
		defer func() {
			s.mu.Lock()
			delete(s.mu.asking, server)
			s.mu.Unlock()
		}()
		report, err := s.requestReport(ctx, server)
		if err != nil {
			s.o.Log.Debug().Err(err).Str("peer", server).Msg("no response about the leader")
			return
		}
		s.o.Agent.Call(ctx, func() { s.machine.RecordReport(now, server, report) })
	})
}

// requestReport asks a voter whether it suspects its leader. It verifies that the process at the address has the
// expected disk, because the response of any other process does not speak for this server. A node that does not
// support the request returns an error, which counts as no suspicion.
func (s *Suspicion) requestReport(ctx context.Context, server string) (report election.Report, err error) {
	var wire WireReport
	err = s.o.Client.CallFunc(ctx, consensus.NodeOf(server), func(c *peer.Conn) (control.Request, error) {
		if actual := consensus.ServerID(c.Node(), c.Peer().Disk); actual != server {
			return control.Request{}, fmt.Errorf("node: %q is there in the place of %q", actual, server)
		}
		return control.Request{Kind: control.SuspectsLeader}, nil
	}, &wire)
	return wire.Report(), err
}

// Report returns the report of this node, including whether it suspects its leader. server is the requester, which
// suspects the leader, so the machine also records the request.
func (s *Suspicion) Report(ctx context.Context, server string) (report election.Report, err error) {
	reports := make(chan election.Report, 1)
	called := s.o.Agent.Call(ctx, func() { //nolint:contextcheck // what this node asks in turn ends with its own run
		now := s.o.Agent.BeginTurn()
		s.Poll(now)
		s.machine.RecordRequest(now, server)
		s.Poll(now)
		reports <- s.machine.Report()
	})
	if !called {
		return report, fmt.Errorf("node: %s does not say whether it misses its leader", s.o.Self)
	}
	return <-reports, nil
}

// campaign starts an election against the leader of a term, which most voters suspect.
func (s *Suspicion) campaign(term uint64) {
	if s.o.Campaigner.IsStopping() {
		s.machine.CampaignRefused(s.o.Agent.BeginTurn(), term) // the other voters would otherwise wait for this node
		return
	}
	leader := s.raft.Leader()
	s.o.Background.Go(func() {
		s.o.Log.Info().Str("leader", leader).Uint64("term", term).Msg("leader unreachable for most voters, campaigning")
		if err := s.o.Campaigner.campaignIfTerm(CauseMissed, term); err != nil && !errors.Is(err, consensus.ErrTooLate) {
			s.o.Agent.Call(s.ctx, func() { s.machine.CampaignRefused(s.o.Agent.BeginTurn(), term) })
		}
	})
}
