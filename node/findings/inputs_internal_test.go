package findings

import (
	"reflect"
	"testing"
	"time"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/admin/api"
	"shardway/diagnosis"
	"shardway/node/crashdetect"
	"shardway/shardmap"
)

// A leader that does not respond clears no finding. Once, a leader that was busy for a moment counted as one without suspects and without
// shards that wait: findings were cleared, and raised again two seconds later.
func TestLeaderThatDoesNotAnswerEndsNoFinding(t *testing.T) {
	before := LeaderReport{leader: "b", Views: []leader.MemberView{{Node: "c"}}, Suspects: []crashdetect.Suspect{{}}, Upgrade: &api.UpgradeState{Behind: "c"}}
	for name, tt := range map[string]struct {
		now                    LeaderReport
		views, suspects, level bool // unchanged
	}{
		"it says nothing":      {LeaderReport{leader: "b"}, true, true, true},
		"it says what it sees": {LeaderReport{leader: "b", Views: []leader.MemberView{}}, false, true, true},
		"it suspects nothing":  {LeaderReport{leader: "b", Suspects: []crashdetect.Suspect{}}, true, false, true},
		"nobody is behind":     {LeaderReport{leader: "b", Upgrade: &api.UpgradeState{}}, true, true, false},
		"it is another one":    {LeaderReport{leader: "a"}, false, false, false},
	} {
		got := tt.now.withFallback(before)
		if (len(got.Views) > 0) != tt.views || (len(got.Suspects) > 0) != tt.suspects || (got.Upgrade != nil && got.Upgrade.Behind != "") != tt.level {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// The leader's report of a node counts only if the leader receives heartbeats of that node. Nothing else is reported of a node without
// heartbeats, and in particular not the last health of its app.
func TestReceivedHeartbeatsDecideNodeState(t *testing.T) {
	beat := ack.Heartbeat{Applied: 17}
	but := func(change func(*ack.Heartbeat)) ack.Heartbeat {
		hb := beat
		change(&hb)
		return hb
	}
	well := diagnosis.Node{ID: "b", Alive: true, AppliedEpoch: 17, App: diagnosis.AppHealthy}
	for name, tt := range map[string]struct {
		view leader.MemberView
		want diagnosis.Node
	}{
		"well":     {leader.MemberView{Heartbeat: beat, SinceHeartbeat: time.Millisecond}, well},
		"unheard":  {leader.MemberView{Heartbeat: beat, SinceHeartbeat: -1}, diagnosis.Node{ID: "b"}},
		"silent":   {leader.MemberView{Heartbeat: beat, SinceHeartbeat: time.Second, Silent: true}, diagnosis.Node{ID: "b"}},
		"crashed":  {leader.MemberView{Heartbeat: beat, Crashed: true}, diagnosis.Node{ID: "b"}},
		"sick":     {leader.MemberView{Heartbeat: but(func(hb *ack.Heartbeat) { hb.Unhealthy = true })}, diagnosis.Node{ID: "b", Alive: true, AppliedEpoch: 17, App: diagnosis.AppFailing}},
		"behind":   {leader.MemberView{Heartbeat: but(func(hb *ack.Heartbeat) { hb.Applied = 16 })}, diagnosis.Node{ID: "b", Alive: true, AppliedEpoch: 16, Lagging: true, App: diagnosis.AppHealthy}},
		"ahead":    {leader.MemberView{Heartbeat: but(func(hb *ack.Heartbeat) { hb.Applied = 18 })}, diagnosis.Node{ID: "b", Alive: true, AppliedEpoch: 18, App: diagnosis.AppHealthy}},
		"gateway":  {leader.MemberView{Heartbeat: but(func(hb *ack.Heartbeat) { hb.Gateway, hb.Unhealthy = true, true })}, diagnosis.Node{ID: "b", Alive: true, AppliedEpoch: 17, Gateway: true}},
		"instance": {leader.MemberView{Heartbeat: but(func(hb *ack.Heartbeat) { hb.UnhealthyInstances = hb.UnhealthyInstances.With(2) })}, diagnosis.Node{ID: "b", Alive: true, AppliedEpoch: 17, App: diagnosis.AppHealthy, UnhealthyInstances: []diagnosis.Instance{{Number: 3}}}},
		"reported": {leader.MemberView{Heartbeat: beat, Unreachable: true, Reporters: []shardmap.NodeID{"a", "c"}}, diagnosis.Node{ID: "b", Alive: true, AppliedEpoch: 17, App: diagnosis.AppHealthy, Reporters: []string{"a", "c"}}},
		"leaving":  {leader.MemberView{Heartbeat: but(func(hb *ack.Heartbeat) { hb.Leaving = true })}, diagnosis.Node{ID: "b", Alive: true, AppliedEpoch: 17, Stopping: true, App: diagnosis.AppHealthy}},
	} {
		got := diagnosis.Node{ID: "b", Alive: true} // as gossip shows it
		addLeaderView(&got, tt.view, 17)
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
}

// The leader counts as present. Once, a gateway whose gossip had been cut off reported immediately that no node has an app, although the
// leader, which gossip did not show, had one.
func TestLeaderCountsAsPresent(t *testing.T) {
	a, f := diagnosis.Node{ID: "a"}, diagnosis.Node{ID: "f", Gateway: true, Alive: true}
	here, gateway := a, a
	here.Alive, gateway.Gateway = true, true
	for _, tt := range []struct {
		name   string
		a      diagnosis.Node
		leader string
		want   bool
	}{
		{"one with an app is here", here, "f", true},
		{"it is not", a, "f", false},
		{"it leads, and has not been heard", a, "a", true},
		{"who leads is a gateway", gateway, "a", false},
		{"nobody leads", a, "", false},
	} {
		if got := hasOwner([]diagnosis.Node{tt.a, f}, tt.leader); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// A follower queries the leader every two seconds, and in a large cluster less often, so that the leader receives ten queries a second in
// all. It queries half as often while nothing changes, and twice as often while the last response is in doubt. A leader queries itself each
// time.
func TestHowOftenTheLeaderIsAsked(t *testing.T) {
	for _, tt := range []struct {
		self         bool
		nodes        int
		doubts, calm bool
		want         time.Duration
	}{
		{false, 3, false, false, 2 * time.Second},
		{false, 3, false, true, 4 * time.Second},
		{false, 3, true, false, time.Second},
		{false, 3, true, true, time.Second},
		{false, 20, false, false, 2 * time.Second},
		{false, 20, true, false, 2 * time.Second},
		{false, 100, false, false, 10 * time.Second},
		{false, 100, false, true, 20 * time.Second},
		{false, 100, true, true, 10 * time.Second},
		{true, 100, false, false, 0},
		{true, 100, true, true, 0},
	} {
		if got := leaderQueryPause(tt.self, tt.nodes, tt.doubts, tt.calm); got != tt.want {
			t.Errorf("%+v: it is asked again after %v", tt, got)
		}
	}
}

// A new leader is queried immediately, however recent the last query of the old one was, so that a transfer of leadership does not cause
// the finding that there is no leader.
func TestAnotherLeaderIsAskedAtOnce(t *testing.T) {
	at := time.Unix(1000, 0)
	told := LeaderReport{leader: "a", at: at}
	for _, tt := range []struct {
		leader string
		later  time.Duration
		pause  time.Duration
		want   bool
	}{
		{"a", 0, time.Second, true},
		{"a", time.Second - 1, time.Second, true},
		{"a", time.Second, time.Second, false},
		{"b", 0, time.Second, false},
		{"a", 0, 0, false},
	} {
		if got := told.isFresh(at.Add(tt.later), tt.leader, tt.pause); got != tt.want {
			t.Errorf("%+v: what a has told holds: %v", tt, got)
		}
	}
}
