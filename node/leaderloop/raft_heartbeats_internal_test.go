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
			{"they are due", raftHeartbeatInterval, false, true},
			{"they were due", 2 * raftHeartbeatInterval, false, true},
			{"a moment is left", raftHeartbeatInterval - raftHeartbeatInterval/16, false, true},
			{"more than that is left", raftHeartbeatInterval - raftHeartbeatInterval/16 - 1, false, false},
			{"half of it is left, by themselves", raftHeartbeatInterval / 2, false, false},
			{"half of it is left", raftHeartbeatInterval - raftHeartbeatInterval/2, true, true},
			{"more than half is left", raftHeartbeatInterval - raftHeartbeatInterval/2 - 1, true, false},
		} {
			l := &Loop{Leadership: &Leadership{raft: new(consensus.Raft)}, raftHeartbeatsSentAt: time.Now()}
			last := l.raftHeartbeatsSentAt
			time.Sleep(tt.after)
			want := raftHeartbeatInterval
			if tt.own {
				l.sendRaftHeartbeatsIfDueSoon()
			} else {
				if !tt.leave {
					want = raftHeartbeatInterval - tt.after
				}
				if within := l.sendRaftHeartbeatsIfDue(); within != want {
					t.Errorf("%s: due again within %v, want %v", tt.what, within, want)
				}
			}
			if left := !l.raftHeartbeatsSentAt.Equal(last); left != tt.leave || left && !l.raftHeartbeatsSentAt.Equal(time.Now()) {
				t.Errorf("%s: they left: %v, want %v", tt.what, left, tt.leave)
			}
		}
	})
}
