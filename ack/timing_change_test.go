package ack_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/shardmap"
)

// slower returns the timing to which the tests change.
func slower() ack.Timing {
	t := ack.DefaultTiming()
	t.Lease, t.DeadAfter, t.Takeover, t.RebalanceMode = time.Second, 6*time.Second, ack.TakeoverTimeout, ack.RebalanceStopTheWorld
	return t
}

// changeTiming requests a change from a leader and appends it to the log.
func (s *stage) changeTiming(id shardmap.NodeID, t ack.Timing) error {
	l := s.leaders[id]
	entry, effects, err := l.turn.ChangeTiming(t)
	s.effect(l, slices.Clone(effects))
	if err != nil {
		s.notef("%s changes no timing: %v", id, err)
		return err
	}
	s.append(l.term, entry)
	return nil
}

func TestBootstrapSetsTheTiming(t *testing.T) {
	s := apply(t, ack.NewState(), 4, ack.EncodeBootstrap("c", 8, slower()), ack.OutcomeBootstrapped)
	if s.Timing() != slower() || s.PreviousTiming() != slower() || s.TimingIndex() != 4 {
		t.Errorf("timing %+v, before %+v, since %d", s.Timing(), s.PreviousTiming(), s.TimingIndex())
	}
}

// The entry names its term and the timing that it replaces. Any other entry is void.
func TestOnlyTheNextTimingCounts(t *testing.T) {
	st := serving(t, "a", "b")
	st.run(3 * time.Second)
	first, _, err := st.leaders["a"].turn.ChangeTiming(slower())
	if err != nil {
		t.Fatal(err)
	}
	second, _, err := st.leaders["a"].turn.ChangeTiming(ack.DefaultTiming())
	if err != nil {
		t.Fatal(err)
	}
	s := st.state
	if next, outcome, _ := s.Apply(s.Index()+1, st.term+1, first); outcome != ack.OutcomeIgnored || next.Timing() != ack.DefaultTiming() {
		t.Errorf("in another term: outcome %d", outcome)
	}
	if _, outcome, _ := ack.NewState().Apply(1, st.term, first); outcome != ack.OutcomeIgnored {
		t.Errorf("before the birth: outcome %d", outcome)
	}
	st.append(st.term, first)
	st.append(st.term, second) // both replace the first timing
	s = st.state
	if s.Timing() != slower() || s.PreviousTiming() != ack.DefaultTiming() || s.TimingIndex() != s.Index()-1 || s.IgnoredEntries() != 1 {
		t.Errorf("timing %+v since %d of %d, before %+v, %d ignored", s.Timing(), s.TimingIndex(), s.Index(), s.PreviousTiming(), s.IgnoredEntries())
	}
}

func TestTimingSurvivesSnapshotBackupAndRecovery(t *testing.T) {
	st := serving(t, "a", "b")
	st.run(3 * time.Second)
	if err := st.changeTiming("a", slower()); err != nil {
		t.Fatal(err)
	}
	same := func(what string, s *ack.State, err error) {
		if err != nil || s.Timing() != slower() || s.PreviousTiming() != ack.DefaultTiming() || s.TimingIndex() != st.state.TimingIndex() {
			t.Errorf("%s: %v, timing %+v, before %+v, since %d", what, err, s.Timing(), s.PreviousTiming(), s.TimingIndex())
		}
	}
	b, _ := st.state.MarshalBinary()
	s, err := ack.DecodeState(b)
	same("snapshot", s, err)
	b, _ = st.state.Backup()
	s, err = ack.OpenBackup(b)
	same("backup", s, err)
	s, err = st.state.Recovered("another", 1<<40)
	same("recovered", s, err)
}

// A leader waits by two timings, not by three, and a new leader does not know the time of the
// last change.
func TestNextChangeWaitsForTheLargerDeadAfter(t *testing.T) {
	st := serving(t, "a", "b")
	soon := func(what string, least time.Duration) {
		t.Helper()
		var e leader.TooSoonError
		if err := st.changeTiming("a", ack.DefaultTiming()); !errors.As(err, &e) || e.Wait < least || e.Wait > least+stageTick {
			t.Errorf("%s: %v, want to wait %v", what, err, least)
		}
	}
	elected := st.now - 600*time.Millisecond
	soon("after the election", 2500*time.Millisecond-(st.now-elected))
	st.run(2 * time.Second)
	if err := st.changeTiming("a", slower()); err != nil {
		t.Fatal(err)
	}
	st.run(stageTick) // it learns of it
	soon("after a change", 6*time.Second)
	st.run(5900 * time.Millisecond)
	soon("a moment too soon", 100*time.Millisecond)
	st.elect("a")
	soon("after the next election", 6*time.Second)
	st.run(6 * time.Second)
	if err := st.changeTiming("a", ack.DefaultTiming()); err != nil {
		t.Errorf("in time: %v", err)
	}
	if blind := st.electStuck("b"); !errors.Is(st.changeTiming("b", slower()), leader.ErrNotYet) {
		t.Errorf("%s has not applied its barrier and changes the timing", blind.id)
	}
}

// A takeover waits for leases of the previous timing, but not longer, because an operator lowers
// dead-after to get faster takeovers.
func TestTakeoverWaitsForTheLongerDeadAfter(t *testing.T) {
	for _, c := range []struct{ wait, taken time.Duration }{
		{100 * time.Millisecond, 6 * time.Second},
		{8 * time.Second, 2500 * time.Millisecond},
	} {
		st := serving(t, "a", "b", "c")
		st.run(3 * time.Second)
		if err := st.changeTiming("a", slower()); err != nil {
			t.Fatal(err)
		}
		st.run(7 * time.Second)
		st.actor("c").mute = true
		silent := st.now
		if err := st.changeTiming("a", ack.DefaultTiming()); err != nil {
			t.Fatal(err)
		}
		if c.wait > time.Second {
			st.actor("c").mute = false
			st.run(c.wait)
			st.actor("c").mute = true
			silent = st.now
		}
		st.until("c's shards are taken", func() bool { return !st.state.Committed().IsMember("c") })
		if took := st.now - silent; took < c.taken-200*time.Millisecond || took > c.taken+200*time.Millisecond {
			t.Errorf("cut off %v after the change: taken after %v, want %v", c.wait, took, c.taken)
		}
	}
}

func TestOfTwoTakeoversTheLaterHolds(t *testing.T) {
	timeout, lease, immediate := slower(), slower(), slower()
	lease.Takeover, immediate.Takeover = ack.TakeoverLease, ack.TakeoverImmediate
	for _, c := range []struct{ a, b, want ack.Timing }{{timeout, lease, timeout}, {lease, immediate, lease}, {immediate, timeout, timeout}} {
		if c.a.Longer(c.b) != c.want || c.b.Longer(c.a) != c.want {
			t.Errorf("of %v and %v: %v and %v, want %v", c.a.Takeover, c.b.Takeover, c.a.Longer(c.b).Takeover, c.b.Longer(c.a).Takeover, c.want.Takeover)
		}
	}
}

func TestTakeoversAndRebalanceModesHaveNames(t *testing.T) {
	for _, f := range allTakeovers() {
		if got, ok := ack.ParseTakeover(f.String()); !ok || got != f {
			t.Errorf("%s reads as %v", f, got)
		}
	}
	for _, p := range []ack.RebalanceMode{ack.RebalanceIncremental, ack.RebalanceStopTheWorld} {
		if got, ok := ack.ParseRebalanceMode(p.String()); !ok || got != p {
			t.Errorf("%s reads as %v", p, got)
		}
	}
	if _, ok := ack.ParseTakeover(""); ok || ack.Takeover(9).String() != "Takeover(9)" || ack.RebalanceMode(0).String() != "RebalanceMode(0)" {
		t.Error("what is no takeover or rebalance mode has a name")
	}
	if _, ok := ack.ParseRebalanceMode("lease"); ok {
		t.Error("a takeover is a rebalance mode")
	}
}
