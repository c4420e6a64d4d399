package ack_test

import (
	"testing"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// sicken makes apps unhealthy.
func (s *stage) sicken(ids ...shardmap.NodeID) {
	for _, id := range ids {
		a := s.actor(id)
		a.unhealthy, a.app.Failing, a.app.FlapCount = true, true, a.app.FlapCount+1
	}
}

func (s *stage) heal(ids ...shardmap.NodeID) {
	for _, id := range ids {
		a := s.actor(id)
		a.unhealthy, a.app.Failing, a.app.Refused = false, false, false
	}
}

// A failed dependency of all apps once moved the shards from app to app until the last one had
// all of them, and back afterwards.
func TestAppsThatFailTogetherKeepTheirShards(t *testing.T) {
	s := serving(t, "a", "b", "c")
	epoch := s.state.Proposed().Epoch()
	for _, id := range []shardmap.NodeID{"a", "b", "c"} { // their checks fail one after the other
		s.actor(id).app.Failing = true
		s.run(200 * time.Millisecond)
	}
	for _, id := range []shardmap.NodeID{"a", "b", "c"} {
		s.sicken(id)
		s.run(400 * time.Millisecond)
	}
	s.run(10 * time.Second)
	for _, id := range []shardmap.NodeID{"c", "a", "b"} {
		s.heal(id)
		s.run(2 * time.Second)
	}
	s.run(10 * time.Second)
	if got := s.state.Proposed().Epoch(); got != epoch {
		t.Errorf("map %d after %d:\n%s", got, epoch, s)
	}
}

// Two of three apps are unhealthy, and one recovers: the last one is excluded after
// panicRecovery.
func TestLastUnhealthyAppIsExcludedAfterMostHaveRecovered(t *testing.T) {
	s := serving(t, "a", "b", "c")
	s.actor("b").app.Failing, s.actor("c").app.Failing = true, true
	s.sicken("b", "c")
	s.run(3 * time.Second)
	s.heal("b")
	healed := s.now
	s.until("c is left", func() bool { return s.state.Committed().ShardCount("c") == 0 })
	if took := s.now - healed; took < 4*time.Second || took > 6*time.Second {
		t.Errorf("c is left after %v, want about 5s:\n%s", took, s)
	}
}

// An app that refuses connections is down. It is excluded at once, also while the others have
// only failed a check, and within panicRecovery.
func TestAppThatRefusesConnectionsIsExcludedAtOnce(t *testing.T) {
	s := serving(t, "a", "b", "c")
	s.actor("b").app.Failing = true
	s.sicken("c")
	s.actor("c").app.Refused = true
	began := s.now
	s.until("c is left", func() bool { return s.state.Committed().ShardCount("c") == 0 })
	if took := s.now - began; took > 300*time.Millisecond {
		t.Errorf("c is left after %v:\n%s", took, s)
	}
}

// A single unhealthy app is excluded at once if the checks of the others succeed.
func TestUnhealthyAppIsExcludedAtOnce(t *testing.T) {
	s := serving(t, "a", "b", "c")
	s.sicken("c")
	began := s.now
	s.until("c is left", func() bool { return s.state.Committed().ShardCount("c") == 0 })
	if took := s.now - began; took > 300*time.Millisecond {
		t.Errorf("c is left after %v:\n%s", took, s)
	}
}

// A newly elected leader has no reports of some apps.
func TestElectionWhileMostAppsAreUnhealthyMovesNothing(t *testing.T) {
	s := serving(t, "a", "b", "c")
	before := s.state.Committed()
	s.actor("b").app.Failing, s.actor("c").app.Failing = true, true
	s.sicken("b", "c")
	s.run(time.Second)
	for _, id := range []shardmap.NodeID{"b", "c", "a"} {
		s.elect(id)
		s.run(time.Second)
	}
	if moves := shardmap.Diff(before, s.state.Proposed()); len(moves) > 0 {
		t.Errorf("%d shards moved:\n%s", len(moves), s)
	}
}

// An app that becomes unhealthy every few seconds made a map each time, and one when it
// recovered.
func TestAppThatFlapsGetsItsShardsBackLaterEachTime(t *testing.T) {
	s := serving(t, "a", "b", "c")
	var pauses []time.Duration
	for range 4 {
		s.sicken("c")
		s.until("c is left", func() bool { return s.state.Committed().ShardCount("c") == 0 })
		s.run(time.Second)
		s.heal("c")
		began := s.now
		s.until("c serves again", func() bool { return s.serves("c") })
		pauses = append(pauses, s.now-began)
	}
	for i, least := range []time.Duration{0, 2 * time.Second, 4 * time.Second, 8 * time.Second} {
		if pauses[i] < least || pauses[i] > least+time.Second {
			t.Errorf("after fall %d: back after %v, want %v and at most a second more", i+1, pauses[i], least)
		}
	}
	epoch := s.state.Proposed().Epoch()
	for range 60 {
		s.sicken("c")
		s.run(300 * time.Millisecond)
		s.heal("c")
		s.run(time.Second)
	}
	if maps := (s.state.Proposed().Epoch() - epoch) / 2; maps > 1 {
		t.Errorf("%d maps for an app that flaps, want one:\n%s", maps, s)
	}
}

// A node whose app becomes unhealthy repeatedly serves without a hold if no other node can.
func TestFlappingAppServesWhenNoOtherCan(t *testing.T) {
	s := serving(t, "a", "b")
	for range 5 {
		s.sicken("b")
		s.run(300 * time.Millisecond)
		s.heal("b")
		s.run(100 * time.Millisecond)
	}
	if s.state.Proposed().IsMember("b") {
		t.Fatalf("b is in the map:\n%s", s)
	}
	s.actor("a").leaving = true
	s.until("b has all shards", func() bool { return s.state.Committed().ShardCount("b") == 12 })
}

// A heartbeat carries the app health that the node reports.
func TestHeartbeatCarriesTheHealthOfTheApp(t *testing.T) {
	want := ack.Heartbeat{FormatVersion: 1, Node: "a", Server: "a/d", Boot: 1, Number: 1, Weight: 1, App: ack.AppHealth{Failing: true, Starting: true, FlapCount: 7}}
	for _, refused := range []bool{true, false} {
		want.App.Refused = refused
		b, err := want.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		var got ack.Heartbeat
		if err := got.UnmarshalBinary(b); err != nil || got.App != want.App {
			t.Errorf("%+v, %v; want %+v", got.App, err, want.App)
		}
	}
	want.App.FlapCount = 1 << 20
	b, _ := want.MarshalBinary()
	var got ack.Heartbeat
	if err := got.UnmarshalBinary(b); err != nil || got.App.FlapCount != 1000 {
		t.Errorf("%d falls, %v; want 1000", got.App.FlapCount, err)
	}
}

// FlapCounter count as repeated while each comes within ten minutes of the one before.
func TestFlapCounterResetsAfterTenMinutes(t *testing.T) {
	var o ack.FlapCounter
	if got := o.Count(time.Hour); got != 0 {
		t.Errorf("%d at first", got)
	}
	o.Add(0)
	o.Add(9 * time.Minute)
	if got := o.Count(18 * time.Minute); got != 2 {
		t.Errorf("%d, want 2", got)
	}
	if got := o.Count(20 * time.Minute); got != 0 {
		t.Errorf("%d eleven minutes later, want 0", got)
	}
	o.Add(20 * time.Minute)
	if got := o.Count(20 * time.Minute); got != 1 {
		t.Errorf("%d after a long pause, want 1", got)
	}
}

// While most apps are unhealthy, members keep their shards. A node outside the map gets none as
// long as its own app is unhealthy.
func TestUnhealthyNewcomerGetsNoShardsFromUnhealthyApps(t *testing.T) {
	s := serving(t, "a", "b")
	s.actor("a").app.Failing, s.actor("b").app.Failing = true, true
	s.run(200 * time.Millisecond)
	s.sicken("a", "b")
	s.run(200 * time.Millisecond)
	s.actor("c").unhealthy, s.actor("c").app.Failing = true, true
	s.joins("c")
	s.run(5 * time.Second)
	if s.state.Proposed().IsMember("c") || s.state.Committed().ShardCount("a") != 6 {
		t.Errorf("shards moved between unhealthy apps:\n%s", s)
	}
}
