package node

import (
	"testing"
	"time"

	"shardway/ack"
)

// A leader that did not run for a while has heard nobody meanwhile. It used to take
// the first voter that came to its mind for dead when it went on.
func TestTimeNotLookedAtIsNobodysAbsence(t *testing.T) {
	k := &keeper{absent: map[string]time.Duration{}, looked: time.Now()}
	heard := ack.MemberView{Node: "b", Heartbeat: ack.Heartbeat{Node: "b", Server: "b/1", Boot: 1}}
	r := roster{views: []ack.MemberView{heard}, voters: []string{"b/1", "c/1"}}
	for range 3 {
		k.looked = k.looked.Add(-time.Minute)
		k.look(r)
	}
	if got := k.absent["c/1"]; got > 3*2*membersEvery {
		t.Errorf("c was absent for %v in three looks, want %v at most", got, 3*2*membersEvery)
	}
	if got, ok := k.absent["b/1"]; ok {
		t.Errorf("b is heard, and was absent for %v", got)
	}
	if r.hears("b/2") {
		t.Error("the heartbeats of one disk count for another one")
	}
}
