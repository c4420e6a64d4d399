package consensus

import (
	"time"

	"github.com/hashicorp/raft"
)

// seldom is how many times less often a leader sends Raft's heartbeats than the library
// means to.
//
// The library (v1.7.3) has one setting for how long a follower waits for its leader and how
// often a leader speaks: at random between a tenth and a fifth of it. Each heartbeat wakes
// both sides, the timer that sends it as a rule twice, and most of what a leader does at
// rest is that. So who leads counts by three times the time that its followers wait: with 500 ms
// it speaks every 150 to 300 ms where nobody has it speak sooner (see Raft.Beat, which does every
// 97), and sets a timer for that each time, at whose end the runtime's monitor thread wakes up. One
// heartbeat that is lost on the way, and that TCP sends once more after 200 ms, is still no reason
// to stand (and who stands all the same is refused by voters that hear the leader); nor for the
// leader to take its followers for gone, whose lease (LeaderLease) is as long: unless its disk takes
// more than 300 ms for a write, which what is asked for waits for, and it hears no other quorum.
const seldom = 3

// writesOfAVote is for how many writes a candidate waits for votes: its own of the term, and
// then those of the term and the vote of whom it asked.
const writesOfAVote = 3

// votesLate bounds how long a candidate waits for votes, up to twice as long, for its own disk;
// half of it does for those of others.
const votesLate = 8 * time.Second

// tempo has the library go by the part that this server has, and by what disks take: as seldom
// as it may while it leads, and else by what was asked for, but for a candidate's patience. The
// last change of its state, or of whom it follows, is followed by a call, and each write of the
// term or of a vote; who led, and waits for another leader, has the library look anew.
//
// The library begins to wait for votes before it has written the term that it asks them for,
// and chooses blindly between a vote that is there and the end of its patience. On disks that
// are slower than that (broadcastTime ≪ electionTimeout, Ongaro and Ousterhout 2014, 5.6, counts
// the writing) three voters would stand against each other for ever. So who stands waits as
// long as its own disk needs, and, as those of others may be slower, twice as long from the
// third time on. What is past is forgotten once somebody leads: refused pre-votes are waited
// with for as long.
func (r *Raft) tempo() {
	r.pacing.Lock()
	defer r.pacing.Unlock()
	c := r.cur.Load()
	now := c.ReloadableConfig()
	want := now
	want.HeartbeatTimeout, want.ElectionTimeout = r.o.Heartbeat, r.o.Election
	if leader, _ := c.LeaderWithID(); leader != "" {
		c.terms.took.Store(0)
		c.terms.stood.Store(0)
	}
	if c.State() == raft.Leader { // who hands over waits as long as for votes
		want.HeartbeatTimeout *= seldom
	}
	disk := writesOfAVote * time.Duration(c.terms.took.Load())
	vain := r.o.Election << min(max(c.terms.stood.Load()-1, 0), 8)
	want.ElectionTimeout = max(want.ElectionTimeout, want.HeartbeatTimeout, min(disk, votesLate), min(vain, votesLate/2))
	if now == want {
		return
	}
	if err := c.ReloadConfig(want); err != nil {
		r.log.Warn().Err(err).Msg("raft timeouts not changed")
	}
}
