package shutdown

import (
	"context"
	"slices"
	"time"

	"shardway/ack/leader"
	"shardway/node/consensus"
	"shardway/shardmap"
)

const (
	// restartRecordTimeout is how long a node that restarts in place waits until the log contains its
	// restart, in addition to the time of its goodbye. A leader may have to be elected first.
	restartRecordTimeout = 3 * time.Second
	// voterLinger is the maximum time for which the node then continues to run as a voter, because the other voters
	// need it for a quorum.
	voterLinger = 3 * time.Second
	// pairVoterLinger is voterLinger in a cluster of two voters. Both are always needed for a quorum, so
	// the node only waits for the other voter to restart at the same time.
	pairVoterLinger = voterLinger / 10
	// closeTimeout bounds the time in which requests from other nodes are refused before the proxy closes.
	closeTimeout = 2 * time.Second
)

// RestartInPlace stops the node for a restart in place: it keeps its shards, and their requests wait for its
// return. The steps are:
//
//   - The node reports that it drains, and serves its shards for other nodes until its own clients
//     are gone.
//   - It admits no more requests, and its app releases the shards.
//   - It sends a goodbye that announces its return.
//
// The node stays a member of Raft and gossip. All steps together take at most Options.Timeout. If
// failed ends earlier, the node has failed.
func (s *Sequence) RestartInPlace(failed context.Context) {
	ctx, cancel := context.WithTimeout(failed, s.options.Timeout)
	defer cancel()
	startedAt := time.Now()
	s.options.Log.Info().Dur("grace", s.options.Grace).Msg("restarting in place, shards wait")
	s.options.Proxy.SetDraining(true)
	s.waitForLameDuck(ctx, startedAt)
	releaseTime := s.options.DrainTimeout + s.options.ReleaseTimeout // from the end of the requests of clients to the goodbye
	requestCtx, stop := context.WithDeadline(ctx, startedAt.Add(max(s.options.Timeout-releaseTime-closeTimeout, 0)))
	if err := s.options.Proxy.DrainClients(requestCtx); err != nil && failed.Err() == nil {
		s.options.Log.Warn().Err(err).Msg("requests of connected clients aborted")
	}
	stop()
	if failed.Err() != nil {
		return
	}
	s.transferLeadership(ctx)
	goodbyeAt := s.options.Agent.LastAnswer()
	s.options.Agent.SayGoodbye()
	recordCtx, stop := context.WithTimeout(ctx, releaseTime+restartRecordTimeout)
	waitUntil(recordCtx, func() bool { return s.restartRecorded(goodbyeAt) })
	stop()
	if s.restartRecorded(goodbyeAt) { // otherwise the log cannot be written
		lingerCtx, stopLingering := context.WithTimeout(ctx, s.voterLingerTime())
		waitUntil(lingerCtx, func() bool { return !s.mustRecordRestarts(lingerCtx) && !s.isNeededForQuorum() })
		stopLingering()
	}
	if failed.Err() != nil {
		return
	}
	closeCtx, stop := context.WithTimeout(ctx, closeTimeout)
	defer stop()
	if err := s.options.ShutProxy(closeCtx); err != nil {
		s.options.Log.Debug().Err(err).Msg("connections closed")
	}
}

// restartRecorded reports whether the log contains the restart of this node. If this node is the last one or owns
// no shards, there is nothing to record, and it reports whether all requests have ended and the leader has
// responded after goodbyeAt, a result of Agent.LastAnswer.
func (s *Sequence) restartRecorded(goodbyeAt time.Duration) bool {
	state := s.options.State()
	recorded, _ := state.Restart(s.options.Self)
	nothingToRecord := s.options.View.IsLastNode() || !state.Committed().IsMember(s.options.Self)
	return recorded.Boot == s.options.Agent.Boot() || nothingToRecord && s.options.Agent.HasStopped() && s.options.Agent.LastAnswer() > goodbyeAt
}

// mustRecordRestarts reports whether this node leads, and the log does not contain yet the restarts of
// other nodes that have sent a goodbye, and the shards that these nodes keep.
func (s *Sequence) mustRecordRestarts(ctx context.Context) bool {
	l := s.options.Leadership()
	if l == nil {
		return false
	}
	views, _ := l.View(ctx)
	state := s.options.State()
	return slices.ContainsFunc(views, func(v leader.MemberView) bool {
		recorded, _ := state.Restart(v.Node)
		return v.Heartbeat.RestartWithin > 0 && recorded.Boot < v.Heartbeat.Boot && state.Committed().IsMember(v.Node)
	})
}

// isNeededForQuorum reports whether the voters that are not restarting would have no quorum without this
// node. That happens if several nodes restart at the same time, or if a node restarts before the previous
// one has returned. Without a quorum, no further restart can be recorded in the log. Then the next node
// could not keep its shards, and its app would have to discard their state.
func (s *Sequence) isNeededForQuorum() bool {
	voters, _ := s.options.View.Servers()
	if !slices.Contains(voters, s.options.Server) {
		return false
	}
	state := s.options.State()
	staying := 0
	for _, v := range voters {
		if id := consensus.NodeOf(v); id != string(s.options.Self) && !state.Restarting(shardmap.NodeID(id)) {
			staying++
		}
	}
	return staying > 0 && staying < len(voters)/2+1
}

// voterLingerTime returns the maximum time for which this node stays because it is needed for a quorum.
func (s *Sequence) voterLingerTime() time.Duration {
	if voters, _ := s.options.View.Servers(); len(voters) == 2 {
		return pairVoterLinger
	}
	return voterLinger
}
