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

// releasesTimeout bounds one attempt to send the release notes to the leader. protocol schedules the
// next attempt.
const releasesTimeout = time.Second

// exceededNotes is the number of release notes of one proposal that exceed the limit of the total size of all notes.
// A release note is a short text that the app returns when it releases a shard, for the app of the next
// owner.
type exceededNotes struct {
	proposal shardmap.Epoch
	notes    int
}

// sendReleases schedules r to be sent to the leader by releaseSender, and logs notes that exceed the limit.
// The goroutine of agent.run calls it repeatedly until the leader has recorded r.
func (h *hookRunner) sendReleases(r ack.Releases) {
	if said := (exceededNotes{r.Proposal, len(r.OverLimit)}); said != h.exceeded {
		h.exceeded = said
		for i, s := range r.OverLimit {
			if i == maxWarned {
				h.log.Warn().Int("shards", len(r.OverLimit)).Msg("more releases out of range")
				break
			}
			leaderloop.WarnNoteRefused(&h.log, r.Node, s)
		}
	}
	chanutil.Replace(h.releaseNotes, r)
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

// run sends the newest release notes until ctx ends. It does not retry itself: protocol calls sendReleases again until the leader has recorded the notes.
func (s *releaseSender) run(ctx context.Context) {
	for {
		var r ack.Releases
		select {
		case <-ctx.Done():
			return
		case r = <-s.notes:
		}
		to := s.raft.Leader()
		switch to {
		case "":
		case s.self:
			s.inbox.send(leader.ReleasesReceived{Releases: r})
		default:
			encoded, _ := r.MarshalBinary()
			sendCtx, cancel := context.WithTimeout(ctx, releasesTimeout)
			err := s.client.Call(sendCtx, to, control.Request{Kind: control.Release, Releases: encoded}, nil)
			cancel()
			if err != nil {
				s.log.Debug().Err(err).Str("peer", to).Msg("releases not delivered")
			}
		}
	}
}
