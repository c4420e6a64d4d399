package node

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
			{"they are due", speakEvery, false, true},
			{"they were due", 2 * speakEvery, false, true},
			{"a moment is left", speakEvery - speakEvery/16, false, true},
			{"more than that is left", speakEvery - speakEvery/16 - 1, false, false},
			{"half of it is left, by themselves", speakEvery / 2, false, false},
			{"half of it is left", speakEvery - speakEvery/2, true, true},
			{"more than half is left", speakEvery - speakEvery/2 - 1, true, false},
		} {
			l := &leading{leadership: &leadership{raft: new(consensus.Raft)}, spoke: time.Now(), echoed: true}
			last := l.spoke
			time.Sleep(tt.after)
			want := speakEvery
			if tt.own {
				l.follow()
			} else {
				if !tt.leave {
					want = speakEvery - tt.after
				}
				if within := l.speak(); within != want {
					t.Errorf("%s: due again within %v, want %v", tt.what, within, want)
				}
			}
			if left := !l.spoke.Equal(last); left != tt.leave || left && !l.spoke.Equal(time.Now()) {
				t.Errorf("%s: they left: %v, want %v", tt.what, left, tt.leave)
			}
			// The first echo after they have left has the node beat, too.
			if l.echoed == tt.leave {
				t.Errorf("%s: an echo is still waited for: %v, want %v", tt.what, !l.echoed, tt.leave)
			}
		}
	})
}
