package campaign

import (
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"shardway/node/consensus"
)

// The causes of an election before Raft's timeout, for metrics.
const (
	CauseEvidence = "evidence" // the process of the leader has ended
	CauseMissed   = "missed"   // most voters suspect the leader
)

// stagger is the time that one election may take on a slow disk. It usually takes 10 ms, but each side syncs its
// disk three times. Two candidates in one term would split the vote, which costs at least an election timeout.
const stagger = 250 * time.Millisecond

// Campaigner starts elections.
type Campaigner struct {
	Raft *consensus.Raft
	// IsStopping reports whether this node is stopping, so that it must not become the leader.
	IsStopping func() bool
	// OnCampaign is called with the cause after a campaign has started. It is not called if the campaign could not
	// be started.
	OnCampaign func(cause string)
	Log        zerolog.Logger

	missedLeader atomic.Pointer[string] // see MissedLeader; nil means none
}

// MissedLeader returns the last leader that this node campaigned against or whose process exited, or an empty
// string. The event leader-lost uses it to distinguish a leader that failed from one that another server replaced.
func (c *Campaigner) MissedLeader() string {
	if node := c.missedLeader.Load(); node != nil {
		return *node
	}
	return ""
}

// OnLeaderEnded starts an election when the process of the leader has ended, without waiting for Raft's timeout. It
// has no effect if a leader other than node is known. Voters campaign in the order of their IDs, at intervals of
// stagger, so that they do not split the vote. If another voter has already started an election when it is this voter's turn,
// this voter waits for stagger once more, because the other voter cannot be elected if it lacks entries that this
// voter has.
func (c *Campaigner) OnLeaderEnded(node string) {
	c.missedLeader.Store(&node)
	rank := c.Raft.Rank(node)
	if rank < 0 || c.anotherNodeLeads(node) {
		return
	}
	term := c.Raft.Term()
	time.AfterFunc(time.Duration(rank)*stagger, func() {
		if c.Raft.Term() == term {
			c.campaignIfNoNewLeader(node)
			return
		}
		time.AfterFunc(stagger, func() { c.campaignIfNoNewLeader(node) })
	})
}

// anotherNodeLeads reports whether there is a leader other than previous.
func (c *Campaigner) anotherNodeLeads(previous string) bool {
	leader := c.Raft.Leader()
	return leader != "" && leader != previous
}

// campaignIfNoNewLeader starts an election unless there is a leader other than previous, or this node is stopping.
func (c *Campaigner) campaignIfNoNewLeader(previous string) {
	term := c.Raft.Term()
	if c.anotherNodeLeads(previous) || c.IsStopping() {
		return
	}
	c.Log.Info().Str("leader", previous).Msg("leader process stopped, starting campaign")
	_ = c.campaignIfTerm(CauseEvidence, term) // it logs the error
}

// campaignIfTerm starts an election only if the local term is still term. Otherwise it returns
// consensus.ErrTooLate.
func (c *Campaigner) campaignIfTerm(cause string, term uint64) error {
	if leader := c.Raft.Leader(); leader != "" {
		c.missedLeader.Store(&leader)
	}
	err := c.Raft.CampaignIfTerm(term)
	if err != nil {
		c.Log.Debug().Err(err).Msg("campaign failed")
		return err
	}
	c.OnCampaign(cause)
	return nil
}
