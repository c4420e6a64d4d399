package node

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/internal/chanutil"
	"shardway/node/consensus"
	"shardway/node/control"
	"shardway/node/leaderloop"
	"shardway/shardmap"
)

// releasesTimeout bounds one attempt to send the release notes to the leader. The protocol schedules the next
// attempt.
const releasesTimeout = time.Second

// exceededNotes counts the release notes of one proposal that do not fit into the limit of the total size. A
// release note is a short text that the app returns when it releases a shard, for the app of the next owner.
type exceededNotes struct {
	proposal shardmap.Epoch
	notes    int
}

// sendReleases schedules r to be sent to the leader by releaseSender, and logs notes that exceed the limit.
// The goroutine of agent.run calls it repeatedly until the leader has recorded r.
func (h *hookRunner) sendReleases(r ack.Releases) {
	if exceeded := (exceededNotes{r.Proposal, len(r.OverLimit)}); exceeded != h.loggedExceeded {
		h.loggedExceeded = exceeded
		h.logExceededNotes(r)
	}
	chanutil.Replace(h.releaseNotes, r)
}

// logExceededNotes logs the shards whose notes exceed the limit, up to maxWarned of them.
func (h *hookRunner) logExceededNotes(r ack.Releases) {
	for i, shard := range r.OverLimit {
		if i == maxWarned {
			h.log.Warn().Int("shards", len(r.OverLimit)).Msg("more releases out of range")
			return
		}
		leaderloop.WarnNoteRefused(&h.log, r.Node, shard)
	}
}

// releaseSender sends the release notes of this node to the leader.
type releaseSender struct {
	self   string
	notes  <-chan ack.Releases // the newest notes
	raft   *consensus.Raft
	client *control.Client
	inbox  *leaderInbox
	log    zerolog.Logger
}

// run sends the newest release notes until ctx ends. It does not retry itself: protocol calls sendReleases
// again until the leader has recorded the notes.
func (s *releaseSender) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case notes := <-s.notes:
			s.sendToLeader(ctx, notes)
		}
	}
}

// sendToLeader sends release notes to the leader, if there is one.
func (s *releaseSender) sendToLeader(ctx context.Context, notes ack.Releases) {
	leaderID := s.raft.Leader()
	if leaderID == "" {
		return
	}
	if leaderID == s.self {
		s.inbox.send(leader.ReleasesReceived{Releases: notes})
		return
	}
	encoded, _ := notes.MarshalBinary()
	sendCtx, cancel := context.WithTimeout(ctx, releasesTimeout)
	defer cancel()
	if err := s.client.Call(sendCtx, leaderID, control.Request{Kind: control.Release, Releases: encoded}, nil); err != nil {
		s.log.Debug().Err(err).Str("peer", leaderID).Msg("releases not delivered")
	}
}
