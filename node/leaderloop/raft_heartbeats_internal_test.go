package leaderloop

import (
	"testing"
	"testing/synctest"
	"time"

	"shardway/node/consensus"
)

// Raft's heartbeats leave when they are due, or as good as: with a heartbeat of the node's own
// up to half of their time earlier, and no two of them within less.
func TestRaftsHeartbeatsLeaveWhenTheyAreNearlyDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			what  string
			after time.Duration // the last ones
			own   bool          // with a heartbeat of the node's own
			leave bool
		}{
			{"they are due", raftHeartbeatEvery, false, true},
			{"they were due", 2 * raftHeartbeatEvery, false, true},
			{"a moment is left", raftHeartbeatEvery - raftHeartbeatEvery/16, false, true},
			{"more than that is left", raftHeartbeatEvery - raftHeartbeatEvery/16 - 1, false, false},
			{"half of it is left, by themselves", raftHeartbeatEvery / 2, false, false},
			{"half of it is left", raftHeartbeatEvery - raftHeartbeatEvery/2, true, true},
			{"more than half is left", raftHeartbeatEvery - raftHeartbeatEvery/2 - 1, true, false},
		} {
			l := &Loop{Leadership: &Leadership{raft: new(consensus.Raft)}, raftHeartbeatsSent: time.Now(), voterHeard: true}
			last := l.raftHeartbeatsSent
			time.Sleep(tt.after)
			want := raftHeartbeatEvery
			if tt.own {
				l.sendIfDueSoon()
			} else {
				if !tt.leave {
					want = raftHeartbeatEvery - tt.after
				}
				if within := l.sendIfDue(); within != want {
					t.Errorf("%s: due again within %v, want %v", tt.what, within, want)
				}
			}
			if left := !l.raftHeartbeatsSent.Equal(last); left != tt.leave || left && !l.raftHeartbeatsSent.Equal(time.Now()) {
				t.Errorf("%s: they left: %v, want %v", tt.what, left, tt.leave)
			}
			// The first echo after they have left has the node beat, too.
			if l.voterHeard == tt.leave {
				t.Errorf("%s: an echo is still waited for: %v, want %v", tt.what, !l.voterHeard, tt.leave)
			}
		}
	})
}
