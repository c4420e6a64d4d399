package node

import (
	"testing"
	"testing/synctest"
	"time"

	"shardway/internal/clock"
	"shardway/node/consensus"
)

// Raft's heartbeats leave when they are due, or as good as: with a heartbeat of the node's own
// a little earlier. Where the node is busy they are due twice as often.
func TestRaftsHeartbeatsLeaveWhenTheyAreNearlyDue(t *testing.T) {
	for _, tt := range []struct {
		what  string
		after time.Duration // the last ones
		busy  bool
		own   bool // with a heartbeat of the node's own
		leave bool
	}{
		{"they are due", restEvery, false, false, true},
		{"they were due", 2 * restEvery, false, false, true},
		{"a moment is left", restEvery - speakEvery/16, false, false, true},
		{"more than that is left", restEvery - speakEvery/16 - 1, false, false, false},
		{"half of it is left, by themselves", restEvery / 2, false, false, false},
		{"a quarter of it is left", restEvery - speakEvery/2, false, true, true},
		{"more than that is left, beside its own", restEvery - speakEvery/2 - 1, false, true, false},
		{"they are due, busy", speakEvery, true, false, true},
		{"a moment is left, busy", speakEvery - speakEvery/16, true, false, true},
		{"more than that is left, busy", speakEvery - speakEvery/16 - 1, true, false, false},
		{"half of it is left, busy", speakEvery - speakEvery/2, true, true, true},
		{"more than half is left, busy", speakEvery - speakEvery/2 - 1, true, true, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := &Node{}
			if tt.busy {
				n.pulse.WhileBusy(clock.EveryBeat)
			}
			l := &leading{leadership: &leadership{n: n, raft: new(consensus.Raft)}, spoke: time.Now(), echoed: 1}
			last := l.spoke
			every := restEvery
			if tt.busy {
				every = speakEvery
			}
			time.Sleep(tt.after)
			want := every
			if tt.own {
				l.follow()
			} else {
				if !tt.leave {
					want = every - tt.after
				}
				if within := l.speak(); within != want {
					t.Errorf("%s: due again within %v, want %v", tt.what, within, want)
				}
			}
			if left := !l.spoke.Equal(last); left != tt.leave || left && !l.spoke.Equal(time.Now()) {
				t.Errorf("%s: they left: %v, want %v", tt.what, left, tt.leave)
			}
			// The first echo after they have left has the node beat, too.
			if (l.echoed == 0) != tt.leave {
				t.Errorf("%s: an echo is still waited for: %v, want %v", tt.what, l.echoed == 0, tt.leave)
			}
		})
	}
}
