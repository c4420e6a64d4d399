package leader

import (
	"testing"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// idleStage is a leader with two nodes, a and b, that answer everything at once. Its clock is a
// number, and its log is one state.
type idleStage struct {
	t      *testing.T
	now    time.Duration
	index  uint64
	state  *ack.State
	driver *Driver
	echoes map[shardmap.NodeID]ack.Echo
	number uint64
}

func (s *idleStage) Term() uint64     { return 1 }
func (s *idleStage) Voters() []string { return []string{"a/disk", "b/disk"} }

func (*idleStage) Nonvoters() []string { return nil }

// newIdleStage returns a leader that has committed the first map and has nothing to do.
func newIdleStage(t *testing.T) *idleStage {
	t.Helper()
	s := &idleStage{t: t, state: ack.NewState(), echoes: map[shardmap.NodeID]ack.Echo{}}
	s.driver = NewDriver(DriverOptions{
		Leader: Options{Server: "a/disk", Term: 1, Pace: ack.DefaultPace(), Timing: ack.DefaultTiming(), BootstrapExpect: 2},
		Raft:   s, Clock: func() time.Duration { return s.now }, NewestState: func() *ack.State { return s.state },
	})
	for range 40 {
		s.heartbeats()
		s.now += ack.DefaultPace().Heartbeat
	}
	s.heartbeats()
	if s.state.Committed().ShardCount("b") == 0 {
		t.Fatal("b owns no shard after 4 s")
	}
	return s
}

// heartbeats passes a heartbeat of each node to the leader, then a tick.
func (s *idleStage) heartbeats() {
	s.number++
	for _, id := range []shardmap.NodeID{"a", "b"} {
		s.handle(HeartbeatReceived{From: string(id), Heartbeat: ack.Heartbeat{
			Node: id, Server: string(id) + "/disk", Boot: 1, Nonce: 7, Number: s.number, Echo: s.echoes[id], Term: 1,
			Applied: s.state.Committed().Epoch(), Acked: s.state.Proposed().Epoch(), Interval: ack.DefaultPace().Heartbeat, Weight: 1,
		}})
	}
	s.handle(Tick{})
}

func (s *idleStage) handle(m Message) {
	barrier := false
	for _, e := range s.driver.Step(m) {
		switch e := e.(type) {
		case Barrier:
			s.append(ack.EncodeBootstrap("c", 2, ack.DefaultTiming()))
			barrier = true
		case Submit:
			s.append(e.Entry)
		case Reply:
			s.echoes[e.To] = ack.Echo{Term: e.Term, Number: e.Number}
		}
	}
	if barrier {
		s.handle(BarrierApplied{})
	}
}

func (s *idleStage) append(entry []byte) {
	s.t.Helper()
	s.index++
	next, _, err := s.state.Apply(s.index, 1, entry)
	if err != nil {
		s.t.Fatal(err)
	}
	s.state = next
}

// A leader with anything in progress needs its next step at once. Otherwise clients would wait
// up to a heartbeat longer. An idle leader needs a step within a heartbeat interval, because
// excuseStall excuses longer gaps.
func TestBusyLeaderIsDueAtOnce(t *testing.T) {
	s := newIdleStage(t)
	if due := s.driver.Due(); due <= 50*time.Millisecond || due > 100*time.Millisecond {
		t.Fatalf("an idle leader is due in %v, want 50 to 100 ms", due)
	}
	for name, change := range map[string]func(l *Leader, b *member){
		"barrier not applied":     func(l *Leader, _ *member) { l.leases.barrierStart = -1 },
		"entry submitted":         func(l *Leader, _ *member) { l.pending.kind = proposalEntry },
		"no round of this term":   func(l *Leader, _ *member) { l.ownRoundCommitted = false },
		"map change batched":      func(l *Leader, _ *member) { l.changeWantedSince = 0 },
		"policy change queued":    func(l *Leader, _ *member) { l.policyQueue.requests = make([]policyRequest, 1) },
		"later term":              func(l *Leader, _ *member) { l.leases.revoked = true },
		"pause after a failure":   func(l *Leader, _ *member) { l.pausedUntil = s.now + time.Millisecond },
		"no heartbeat of a node":  func(_ *Leader, b *member) { b.firstHeartbeatAt, b.heartbeat = 0, ack.Heartbeat{} },
		"crash evidence":          func(_ *Leader, b *member) { b.crashedBoot = b.heartbeat.Boot },
		"removed node":            func(_ *Leader, b *member) { b.removed = true },
		"node behind":             func(_ *Leader, b *member) { b.behindSince = s.now },
		"last fresh echo too old": func(_ *Leader, b *member) { b.lastFreshEchoAt = 0 },
	} {
		l := s.driver.leader
		leader, b := *l, *l.members.getOrCreate("b")
		change(l, l.members.getOrCreate("b"))
		due := s.driver.Due()
		*l.members.getOrCreate("b") = b
		*l = leader
		if due > 0 {
			t.Errorf("%s: due in %v, want at once", name, due)
		}
		if due := s.driver.Due(); due <= 0 {
			t.Fatalf("%s: due at once although the change is undone", name)
		}
	}
}
