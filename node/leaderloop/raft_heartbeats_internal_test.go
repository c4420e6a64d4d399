package leaderloop

import (
	"testing"
	"testing/synctest"
	"time"

	"shardway/node/consensus"
)

// A Raft heartbeat is sent when it is due, or together with a lease heartbeat up to half an interval earlier. No two Raft heartbeats are
// closer together than that.
func TestRaftsHeartbeatsLeaveWhenTheyAreNearlyDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			what  string
			after time.Duration // since the last Raft heartbeat
			own   bool          // together with a lease heartbeat
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
