package ack_test

import (
	"slices"
	"testing"
	"time"

	"shardway/ack"
	"shardway/ack/agent"
	"shardway/ack/election"
	"shardway/ack/leader"
	"shardway/shardmap"
)

// dueStage drives a node a and the leader on it as their Due methods require, at most every 10 ms,
// in steps of 1 ms.
type dueStage struct {
	t *testing.T
	*toy
	a, b       *toyNode
	looks      int // at a since the last quiet
	ticks      int // of the leader, without a message
	next, lead time.Duration
	sent       []time.Duration
	seen       *ack.State
	mute       bool // heartbeats to the leader get lost
	bMute      bool // b sends nothing
	silent     time.Duration
}

func newDue(t *testing.T) *dueStage {
	t.Helper()
	c := &toy{state: ack.NewState(), nodes: map[shardmap.NodeID]*toyNode{}, quiet: true}
	d := &dueStage{t: t, toy: c, a: c.start("a"), b: c.start("b")}
	c.turn = leader.NewDriver(leader.DriverOptions{
		Leader: leader.Options{Server: "a/disk", Term: c.Term(), Pace: ack.DefaultPace(), Timing: ack.DefaultTiming(), BootstrapExpect: 2},
		Raft:   c, Clock: func() time.Duration { return c.now }, NewestState: func() *ack.State { return c.state },
	})
	d.pass(3*time.Second, func() bool { return d.a.leased() && d.b.leased() })
	d.pass(time.Second, nil)
	if !d.a.leased() || !d.b.leased() {
		t.Fatal("the nodes do not serve")
	}
	d.looks, d.ticks, d.sent = 0, 0, nil
	return d
}

// pass lets time pass until enough returns true, at most long.
func (d *dueStage) pass(long time.Duration, enough func() bool) {
	for end := d.now + long; d.now < end && (enough == nil || !enough()); d.now += ms {
		before := len(d.inbox)
		if d.now >= d.next || len(d.a.inbox) > 0 || d.state != d.seen {
			d.looks++
			d.a.follow()
			d.seen, d.next = d.state, max(d.a.agent.Due(d.now), d.now+10*ms)
		}
		for range len(d.inbox) - before {
			d.sent = append(d.sent, d.now)
		}
		from := len(d.inbox)
		if d.b.follow(); d.bMute {
			d.inbox = d.inbox[:from]
		}
		if d.mute {
			d.inbox = nil
		}
		d.step()
	}
}

// step is the body of the leader loop.
func (d *dueStage) step() {
	messages := d.inbox
	d.inbox = nil
	if len(messages) == 0 {
		if d.now < d.lead {
			return
		}
		d.ticks++
		messages = []leader.Message{leader.Tick{}}
	}
	for _, m := range messages {
		for _, e := range d.turn.Step(m) {
			if n, ok := e.(leader.Event); ok && n.Kind == leader.EventNodeUnresponsive && n.Node == "b" {
				d.silent = d.now
			}
			d.perform(e)
		}
	}
	d.lead = max(d.now+d.turn.Due(), d.now+10*ms)
	if len(d.inbox) > 0 { // the result of an effect
		d.lead = d.now
	}
}

// An idle agent polls when its next heartbeat is due, and often enough that no pause is
// detected. Unnecessary wake-ups would dominate its cost.
func TestIdleAgentIsSeldomDue(t *testing.T) {
	d := newDue(t)
	d.pass(10*time.Second, nil)
	// A beat and an answer to it each 100 ms.
	if d.looks > 200+10 || len(d.sent) < 98 {
		t.Errorf("%d looks for %d heartbeats in 10 s, want two for each", d.looks, len(d.sent))
	}
	for i, at := range d.sent[1:] {
		if gap := at - d.sent[i]; gap < 100*ms || gap > 102*ms {
			t.Errorf("heartbeat %d left %v after the one before", i+1, gap)
		}
	}
	if d.ticks > 100 {
		t.Errorf("the leader was due %d times in 10 s beside what it heard, want 10 a second at most", d.ticks)
	}
	if !d.a.leased() {
		t.Error("the lease is lost: its own rest was taken for a pause")
	}
}

// With recent requests the agent polls half-way to the next heartbeat, so that a late poll on
// a busy machine does not void the lease. This lasts for one second after the last request.
func TestAgentWithRequestsPollsBetweenHeartbeats(t *testing.T) {
	d := newDue(t)
	left := func() time.Duration {
		d.pass(time.Second, func() bool { return len(d.sent) > 0 })
		d.pass(2*ms, nil) // it is answered
		d.sent = nil
		return d.a.agent.Due(d.now) - d.now
	}
	if got := left(); got > 100*ms || got < 95*ms {
		t.Errorf("nobody asks: the next look is due in %v, want 100 ms or a little less", got)
	}
	d.a.agent.Poll(d.now, agent.Observation{State: d.state, Weight: 1, HasRequests: true})
	for began := d.now; d.now-began < 900*ms; {
		if got := left(); got > 50*ms || got < 45*ms {
			t.Errorf("asked %v before: the next look is due in %v, want 50 ms or a little less", d.now-began, got)
		}
	}
	left()
	left()
	if got := left(); got < 95*ms {
		t.Errorf("asked more than a second before: the next look is due in %v, want 100 ms or a little less", got)
	}
}

// AdvanceHeartbeat sends the heartbeat early by at most half of the interval and at most the
// given time. The next one follows a full interval later.
func TestHeartbeatIsEarlyByHalfAnIntervalAtMost(t *testing.T) {
	d := newDue(t)
	for _, c := range []struct {
		left, most time.Duration // until the next one is due
		early      bool
	}{{left: 51 * ms, most: time.Second}, {left: 50 * ms, most: time.Second, early: true}, {left: ms, most: time.Second, early: true}, {left: 5 * ms, most: 4 * ms}, {left: 4 * ms, most: 4 * ms, early: true}} {
		d.pass(time.Second, func() bool { return len(d.sent) > 0 })
		last := d.sent[len(d.sent)-1]
		d.pass(last+100*ms-c.left-d.now, nil)
		d.a.agent.AdvanceHeartbeat(d.now, c.most)
		if got := d.a.agent.Due(d.now) <= d.now; got != c.early {
			t.Errorf("%v before its time it is due at once: %v, want %v", c.left, got, c.early)
		}
		d.next, d.sent = min(d.next, d.a.agent.Due(d.now)), nil
		want := d.now
		if !c.early {
			want += c.left
		}
		d.pass(250*ms, func() bool { return len(d.sent) == 2 })
		if len(d.sent) != 2 || d.sent[0] != want || d.sent[1] < want+100*ms || d.sent[1] > want+102*ms {
			t.Errorf("%v before its time: heartbeats left at %v, want one at %v and the next 100ms later", c.left, d.sent, want)
		}
	}
}

// A following voter confirms the answer to each periodic heartbeat once, at once, and by the echo of
// that answer. Its periodic heartbeats are still one interval apart.
func TestFollowingVoterConfirmsEachAnswerOnce(t *testing.T) {
	d := newDue(t)
	d.confirms = true
	d.pass(time.Second, nil)
	d.sent, d.looks = nil, 0
	d.pass(10*time.Second, nil)
	if n := len(d.sent); n < 2*97 || n > 2*100 {
		t.Errorf("%d heartbeats in 10 s, want two in each 100 ms", n)
	}
	for i := 2; i < len(d.sent); i++ {
		if gap := d.sent[i] - d.sent[i-2]; gap < 100*ms || gap > 104*ms {
			t.Errorf("heartbeat %d left %v after the last but one, want 100 ms", i, gap)
		}
		if gap := d.sent[i] - d.sent[i-1]; gap > 3*ms && gap < 97*ms {
			t.Errorf("heartbeat %d left %v after the last one, want about 0 or 100 ms", i, gap)
		}
	}
	if d.looks > 300+10 {
		t.Errorf("%d looks in 10 s, want three in each 100 ms", d.looks)
	}
}

// A repeated answer is confirmed only once, and an answer to an earlier heartbeat is not confirmed.
func TestRepeatedAnswerIsConfirmedOnce(t *testing.T) {
	d := newDue(t)
	d.confirms = true
	d.pass(time.Second, nil)
	var old []ack.Answer
	d.sent = nil
	for range 1000 {
		d.a.inbox = append(d.a.inbox, append(slices.Clone(d.a.inbox), old...)...)
		old = append(old, d.a.inbox...)
		old = old[max(len(old)-5, 0):]
		d.pass(ms, nil)
	}
	if n := len(d.sent); n > 2*10 {
		t.Errorf("%d heartbeats in 1 s, want two in each 100 ms", n)
	}
}

// While every voter confirms the answers, a lease counts from an answer of the last interval,
// regardless of the phases of the voters. Without confirmations it counts from an earlier answer, if
// the other voter sends just after this one.
func TestConfirmedLeaseIsAtMostOneIntervalOld(t *testing.T) {
	for phase := time.Duration(0); phase < 100*ms; phase += 10 * ms {
		d := newDue(t)
		d.confirms = true
		d.pass(time.Second, func() bool { return len(d.sent) > 0 && d.sent[len(d.sent)-1] == d.now-ms })
		d.pass(phase, nil)
		d.b.agent.HeartbeatNow()
		d.pass(time.Second, nil)
		least := time.Second
		d.pass(time.Second, func() bool {
			least = min(least, d.a.lease-d.now, d.b.lease-d.now)
			return false
		})
		if least < 295*ms {
			t.Errorf("b sends %v after a: a lease was down to %v, want 300 ms", phase, least)
		}
	}
}

// followerRaft is the Raft server a/disk of three voters in term 1, which b/disk leads.
type followerRaft struct{}

func (followerRaft) Term() uint64            { return 1 }
func (followerRaft) Voters() []string        { return []string{"a/disk", "b/disk", "c/disk"} }
func (followerRaft) Leader() string          { return "b/disk" }
func (followerRaft) LogEnd() election.LogEnd { return election.LogEnd{} }

// A node with an unanswered heartbeat polls every 10 ms, so that it detects a failed leader
// and the end of its lease in time.
func TestAgentWithUnansweredHeartbeatIsDueAtOnce(t *testing.T) {
	d := newDue(t)
	suspicion := election.New(election.Options{Server: "a/disk", Heartbeat: 100 * ms, Raft: followerRaft{}}, d.now)
	missed, lapsed := time.Duration(0), time.Duration(0)
	d.pass(200*ms, nil)
	d.mute = true
	began, lease, looks := d.now, time.Duration(0), d.looks
	d.pass(800*ms, func() bool {
		if d.looks > looks { // it has looked just now
			looks = d.looks
			if _, _ = suspicion.Poll(d.now, d.a.agent.UnansweredHeartbeat()); missed == 0 && suspicion.Report().LeaderTerm != 0 {
				missed = d.now
			}
		}
		if lease = max(lease, d.a.lease); d.a.lease == 0 && lapsed == 0 {
			lapsed = d.now
		}
		return false
	})
	first := time.Duration(0)
	for _, at := range d.sent {
		if at >= began && first == 0 {
			first = at
		}
	}
	if late := missed - first; missed == 0 || late < 80*ms || late > 92*ms {
		t.Errorf("the leader is missed %v after the first heartbeat without an answer, want 80 ms and a look", late)
	}
	if lapsed < lease || lapsed > lease+12*ms {
		t.Errorf("the lease ended at %v, want %v and a look", lapsed, lease)
	}
}

// A leader without a quorum answers and grants nothing. The lease then ends in time.
func TestUnrenewedLeaseEndsInTime(t *testing.T) {
	d := newDue(t)
	lease, lapsed := time.Duration(0), time.Duration(0)
	d.pass(800*ms, func() bool {
		for i := range d.a.inbox {
			d.a.inbox[i].ServeFor = 0
		}
		if lease = max(lease, d.a.lease); d.a.lease == 0 && lapsed == 0 {
			lapsed = d.now
		}
		return false
	})
	if lapsed < lease || lapsed > lease+12*ms {
		t.Errorf("the lease ended at %v, want %v and a look", lapsed, lease)
	}
}

// An idle leader detects a silent node as soon as a busy one.
func TestIdleLeaderDetectsSilentNode(t *testing.T) {
	d := newDue(t)
	d.bMute = true
	began := d.now
	d.pass(2*time.Second, func() bool { return d.silent != 0 })
	// The last heartbeat is up to one old, and half a second has to pass since.
	if after := d.silent - began; d.silent == 0 || after < 400*ms || after > 512*ms {
		t.Errorf("b is silent %v after its last word, want 400 to 500 ms, and a step", after)
	}
	ticks := d.ticks
	d.pass(100*ms, nil)
	if d.ticks-ticks < 7 {
		t.Errorf("%d ticks in 100 ms while a node is silent that has shards, want one every 10 ms but where something came", d.ticks-ticks)
	}
}

// leavesBusy makes a leave while requests run there.
func leavesBusy(d *dueStage) {
	d.a.running = []shardmap.Shard{0, 1}
	d.a.agent.HeartbeatNow()
	d.a.agent.Poll(d.now, agent.Observation{State: d.state, Weight: 1, Leaving: true})
	d.pass(time.Second, func() bool { return d.a.agent.Draining() != 0 })
}

// An agent with anything in progress is due at once.
func TestBusyAgentIsDueAtOnce(t *testing.T) {
	for name, busy := range map[string]func(d *dueStage){
		"parting": func(d *dueStage) { d.a.agent.Poll(d.now, agent.Observation{State: d.state, Weight: 1, Stopping: true}) },
		"new boot": func(d *dueStage) {
			d.a.agent.HandleAnswer(d.now, ack.Answer{Boot: 1, Refusal: ack.RefusedBoot, KnownBoot: 5})
		},
		"refused": func(d *dueStage) {
			d.a.agent.HandleAnswer(d.now, ack.Answer{Boot: 1, Refusal: ack.RefusedDuplicate, DuplicateAddr: "x"})
		},
		"to speak":   func(d *dueStage) { d.a.agent.HeartbeatNow() },
		"to drain":   leavesBusy,
		"lease lost": func(d *dueStage) { d.a.agent.Poll(d.now+time.Minute, agent.Observation{State: d.state, Weight: 1}) },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDue(t)
			d.pass(time.Second, func() bool { return d.a.agent.Due(d.now) >= d.now+30*ms })
			if rest := d.a.agent.Due(d.now); rest < d.now+30*ms {
				t.Fatalf("it is due in %v before anything is the matter", rest-d.now)
			}
			busy(d)
			if at := d.a.agent.Due(d.now); at > d.now {
				t.Errorf("it is due in %v, want at once", at-d.now)
			}
		})
	}
}
