package consensus

import "github.com/hashicorp/raft"

// seldom is how many times less often a leader sends Raft's heartbeats than the library
// means to.
//
// The library (v1.7.3) has one setting for how long a follower waits for its leader and how
// often a leader speaks: at random between a tenth and a fifth of it. Each heartbeat wakes
// both sides, the timer that sends it as a rule twice, and most of what a leader does at
// rest is that. So who leads counts by twice the time that its followers wait: with 500 ms
// it speaks every 100 to 200 ms. One heartbeat that is lost on the way, and that TCP sends
// once more after 200 ms, is still no reason to stand where a round trip takes less than 50 ms (and
// who stands beyond that is refused by voters that hear the leader); nor for the leader to take
// its followers for gone, whose lease (LeaderLease) is as long.
const seldom = 2

// tempo has the library go by the part that this server has: as seldom as it may while it
// leads, and else by what was asked for. The last change of its state is followed by a
// call; who led, and waits for another leader, has the library look anew.
func (r *Raft) tempo() {
	c := r.cur.Load()
	now, want := c.ReloadableConfig(), r.o.Heartbeat
	if c.State() == raft.Leader {
		want *= seldom
	}
	if now.HeartbeatTimeout == want {
		return
	}
	now.HeartbeatTimeout, now.ElectionTimeout = want, max(want, r.o.Election)
	if err := c.ReloadConfig(now); err != nil {
		r.log.Warn().Err(err).Msg("raft's timeouts not changed")
	}
}
