package membership

import (
	"testing"
	"time"

	"shardway/ack"
	"shardway/ack/leader"
)

// A leader whose process was paused has received no heartbeats in this time. It must not treat voters
// as dead when it continues.
func TestTimeWithoutChecksDoesNotCountAsUnheard(t *testing.T) {
	k := &Reconciler{silentFor: map[string]time.Duration{}, lastCheck: time.Now(), checkInterval: reconcileInterval}
	heard := leader.MemberView{Node: "b", Heartbeat: ack.Heartbeat{Node: "b", Server: "b/1", Boot: 1}}
	r := View{MemberViews: []leader.MemberView{heard}, Servers: Servers{Voters: []string{"b/1", "c/1"}}}
	for range 3 {
		k.lastCheck = k.lastCheck.Add(-time.Minute)
		k.updateSilence(r)
	}
	if got := k.silentFor["c/1"]; got != 3*2*reconcileInterval {
		t.Errorf("c was absent for %v in three looks, want %v", got, 3*2*reconcileInterval)
	}
	if got, ok := k.silentFor["b/1"]; ok {
		t.Errorf("b is heard, and was absent for %v", got)
	}
	if r.isConnected("b/2") {
		t.Error("the heartbeats of one disk count for another one")
	}
}

// A partitioned node may run requests until its shards can be reassigned. Until then its ID must not be
// given to another disk, not even by a new leader.
func TestDiskIsReplacedOnlyAfterItsProcessIsGone(t *testing.T) {
	view := leader.MemberView{Node: "b", Heartbeat: ack.Heartbeat{Node: "b", Server: "b/1", Boot: 1}}
	silent, over, unheard := view, view, view
	silent.Silent = true
	over.Silent, over.ProcessGone = true, true
	unheard.SinceHeartbeat = -1
	for _, c := range []struct {
		name string
		view leader.MemberView
		want bool
	}{
		{"is heard", view, false},
		{"is silent and may run something", silent, false},
		{"is silent and runs nothing", over, true},
		{"was not heard by this leader", unheard, false},
		{"is in no map", leader.MemberView{Node: "c"}, true},
	} {
		if got := (View{MemberViews: []leader.MemberView{c.view}}).isGone("b/1"); got != c.want {
			t.Errorf("a node that %s: its name is free %v, want %v", c.name, got, c.want)
		}
	}
}
