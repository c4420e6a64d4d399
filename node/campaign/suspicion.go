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
	// state machine.
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
// campaigns. Only the goroutine of the agent uses detector: responses of other voters are passed to it through
// Agent.Call.
type Suspicion struct {
	options     SuspicionOptions
	raft        *consensus.Raft
	detector    *election.Suspicion // the pure failure detector
	ctx         context.Context     // bounds all requests
	checkedTerm uint64              // term of the last suspected leader that was checked

	mu struct {
		sync.Mutex
		pendingRequests map[string]bool // servers with a request in progress
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
func NewSuspicion(options SuspicionOptions) *Suspicion {
	raft := options.Campaigner.Raft
	s := &Suspicion{options: options, raft: raft, detector: election.New(election.Options{
		Server: options.Server, Heartbeat: options.HeartbeatInterval, Raft: raftAdapter{raft},
	}, options.Clock.Precise())}
	s.mu.pendingRequests = map[string]bool{}
	return s
}

// Start sets the context that bounds all requests. The caller must call it before Poll.
func (s *Suspicion) Start(ctx context.Context) { s.ctx = ctx }

// Poll updates the failure detector, asks the voters that the detector returns, and campaigns if the detector
// decides so. The agent calls it in each turn.
func (s *Suspicion) Poll(now time.Duration) {
	unanswered := s.options.Agent.Unanswered()
	if s.raft.IsLeader() {
		unanswered = election.UnansweredHeartbeat{} // a leader does not suspect itself, though the other voters may
	}
	votersToAsk, mustCampaign := s.detector.Poll(now, unanswered)
	for _, server := range votersToAsk {
		s.askVoter(server, now)
	}
	if mustCampaign {
		s.campaign(s.detector.Report().LeaderTerm)
	}
	if term := s.detector.Report().LeaderTerm; term > s.checkedTerm {
		s.checkedTerm = term
		s.probeSuspectedLeader(term, s.raft.LeaderServer())
	}
}

// leaderResponseTimeout is the timeout of a request to a suspected leader. It is long because a leader that
// responds at all was wrongly suspected.
const leaderResponseTimeout = time.Second

// probeSuspectedLeader checks in the background whether the suspected leader of a term responds to a
// request. If the leader does, the suspicion ends.
func (s *Suspicion) probeSuspectedLeader(term uint64, leader string) {
	ctx, cancel := context.WithTimeout(s.ctx, leaderResponseTimeout)
	s.options.Background.Go(func() {
		defer cancel()
		if _, err := s.requestReport(ctx, leader); err == nil {
			s.options.Agent.Call(ctx, func() { s.detector.LeaderAlive(s.options.Agent.BeginTurn(), term) })
		}
	})
}

// askVoter asks a voter in the background whether it suspects the leader. It does nothing if a request
// to this voter is already in progress. now is passed to the detector together with the response.
func (s *Suspicion) askVoter(server string, now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.pendingRequests[server] {
		return
	}
	s.mu.pendingRequests[server] = true
	ctx, cancel := context.WithTimeout(s.ctx, requestTimeoutBeats*s.options.HeartbeatInterval)
	s.options.Background.Go(func() {
		defer cancel()
		defer func() {
			s.mu.Lock()
			delete(s.mu.pendingRequests, server)
			s.mu.Unlock()
		}()
		report, err := s.requestReport(ctx, server)
		if err != nil {
			s.options.Log.Debug().Err(err).Str("peer", server).Msg("no response about the leader")
			return
		}
		s.options.Agent.Call(ctx, func() { s.detector.RecordReport(now, server, report) })
	})
}

// requestReport asks a voter whether it suspects its leader. It verifies that the process at the address has the
// expected disk, because the response of any other process does not speak for this server. A node that does not
// support the request returns an error, which counts as no suspicion.
func (s *Suspicion) requestReport(ctx context.Context, server string) (report election.Report, err error) {
	var wire WireReport
	err = s.options.Client.CallFunc(ctx, consensus.NodeOf(server), func(c *peer.Conn) (control.Request, error) {
		if actual := consensus.ServerID(c.Node(), c.Peer().Disk); actual != server {
			return control.Request{}, fmt.Errorf("node: the process at the address is %q instead of %q", actual, server)
		}
		return control.Request{Kind: control.SuspectsLeader}, nil
	}, &wire)
	return wire.Report(), err
}

// Report returns the report of this node, including whether it suspects its leader. server is the requester, which
// suspects the leader, so the detector also records the request.
func (s *Suspicion) Report(ctx context.Context, server string) (report election.Report, err error) {
	reports := make(chan election.Report, 1)
	called := s.options.Agent.Call(ctx, func() { //nolint:contextcheck // what this node asks in turn ends with its own run
		now := s.options.Agent.BeginTurn()
		s.Poll(now)
		s.detector.RecordRequest(now, server)
		s.Poll(now)
		reports <- s.detector.Report()
	})
	if !called {
		return report, fmt.Errorf("node: %s has stopped, so it does not report whether it suspects its leader", s.options.Self)
	}
	return <-reports, nil
}

// campaign starts an election against the leader of a term, which most voters suspect.
func (s *Suspicion) campaign(term uint64) {
	if s.options.Campaigner.IsStopping() {
		s.detector.CampaignRefused(s.options.Agent.BeginTurn(), term) // the other voters would otherwise wait for this node
		return
	}
	leader := s.raft.Leader()
	s.options.Background.Go(func() {
		s.options.Log.Info().Str("leader", leader).Uint64("term", term).Msg("leader unreachable for most voters, campaigning")
		if err := s.options.Campaigner.campaignIfTerm(CauseMissed, term); err != nil && !errors.Is(err, consensus.ErrTooLate) {
			s.options.Agent.Call(s.ctx, func() { s.detector.CampaignRefused(s.options.Agent.BeginTurn(), term) })
		}
	})
}
