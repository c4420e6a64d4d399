package agent_test

import (
	"testing"
	"time"

	"shardway/ack"
	"shardway/ack/agent"
)

const ms = time.Millisecond

// grants answers heartbeat beat of boot 1 in term 1.
func grants(number, beat uint64, serve time.Duration) ack.Answer {
	t := ack.DefaultTiming()
	return ack.Answer{Term: 1, Number: number, Boot: 1, HeartbeatNumber: beat, ServeFor: serve, AbortAfter: serve + t.AbortDelay(), LeaseDuration: t.Lease}
}

// heldLease returns a LeaseHolder whose first heartbeat, sent at 0, was answered with a
// lease of 500 ms after 10 ms.
func heldLease(t *testing.T) *agent.LeaseHolder {
	t.Helper()
	h := agent.NewLeaseHolder(1, 0)
	if number, echo := h.NextHeartbeat(0); number != 1 || echo != (ack.Echo{}) {
		t.Fatalf("first heartbeat %d, echo %+v", number, echo)
	}
	if !h.HandleAnswer(10*ms, 1, grants(7, 1, 500*ms)) {
		t.Fatal("the answer did not count")
	}
	return h
}

// ticks lets time pass without a pause.
func ticks(h *agent.LeaseHolder, from, to time.Duration) {
	for now := from; now < to; now += 10 * ms {
		h.Tick(now)
	}
	h.Tick(to)
}

func TestLeaseCountsFromWhenTheHeartbeatWasSent(t *testing.T) {
	h := heldLease(t)
	if until, held := h.LeaseEnd(); !held || until != 500*ms {
		t.Errorf("lease until %v, %v, want 500ms from the heartbeat", until, held)
	}
	if left := h.Remaining(499 * ms); left != ms {
		t.Errorf("%v left, want 1ms", left)
	}
	if left := h.Remaining(600 * ms); left != 0 {
		t.Errorf("%v left after its end", left)
	}
	ticks(h, 10*ms, 500*ms)
	if _, held := h.LeaseEnd(); held || h.Remaining(500*ms) != 0 {
		t.Error("still held at its end")
	}
}

func TestLeaseOnlyGrows(t *testing.T) {
	h := heldLease(t)
	h.NextHeartbeat(100 * ms)
	h.HandleAnswer(110*ms, 1, grants(8, 2, 100*ms)) // ends at 200 ms: the first one holds
	if until, _ := h.LeaseEnd(); until != 500*ms {
		t.Errorf("until %v, want 500ms", until)
	}
	h.HandleAnswer(110*ms, 1, grants(9, 2, 500*ms))
	if until, _ := h.LeaseEnd(); until != 600*ms {
		t.Errorf("until %v, want 600ms", until)
	}
}

func TestAnswerThatDoesNotCount(t *testing.T) {
	for name, a := range map[string]ack.Answer{
		"another boot":   {Term: 1, Number: 8, Boot: 2, HeartbeatNumber: 1, ServeFor: 500 * ms},
		"an older term":  {Term: 0, Number: 8, Boot: 1, HeartbeatNumber: 1, ServeFor: 500 * ms},
		"a refusal":      {Term: 1, Number: 8, Boot: 1, HeartbeatNumber: 1, ServeFor: 500 * ms, Refusal: ack.RefusedBoot},
		"no lease in it": {Term: 1, Number: 8, Boot: 1, HeartbeatNumber: 1},
		"no such beat":   grants(8, 65, 500*ms),
		"too late":       grants(8, 1, 20*ms),
	} {
		h := agent.NewLeaseHolder(1, 0)
		h.NextHeartbeat(0)
		ticks(h, 0, 20*ms)
		h.HandleAnswer(20*ms, 1, a)
		if _, held := h.LeaseEnd(); held {
			t.Errorf("%s: a lease", name)
		}
	}
}

func TestEchoIsTheNewestAnswerOfTheNewestTerm(t *testing.T) {
	h := heldLease(t)
	for _, step := range []struct{ term, number, wantTerm, wantNumber uint64 }{
		{1, 9, 1, 9}, {1, 8, 1, 9}, {3, 2, 3, 2}, {2, 50, 3, 2},
	} {
		h.HandleAnswer(20*ms, 1, ack.Answer{Term: step.term, Number: step.number, Boot: 1, HeartbeatNumber: 1})
		if _, echo := h.NextHeartbeat(20 * ms); echo.Term != step.wantTerm || echo.Number != step.wantNumber {
			t.Errorf("after answer %d/%d: echo %+v, want %d/%d", step.term, step.number, echo, step.wantTerm, step.wantNumber)
		}
	}
}

func TestPauseVoidsTheLease(t *testing.T) {
	h := heldLease(t)
	h.Tick(135 * ms)
	if _, held := h.LeaseEnd(); !held {
		t.Error("125 ms without a tick are no pause")
	}
	h.Tick(261 * ms)
	if _, held := h.LeaseEnd(); held {
		t.Error("126 ms without a tick are a pause, and the lease is held")
	}
	h.NextHeartbeat(270 * ms)
	h.HandleAnswer(280*ms, 1, grants(9, 2, 500*ms))
	if until, held := h.LeaseEnd(); !held || until != 770*ms {
		t.Errorf("renewed until %v, %v, want 770ms", until, held)
	}
}

// A process that waits on a busy machine is not paused.
func TestRunningProcessIsNotPaused(t *testing.T) {
	h := heldLease(t)
	h.MarkRunning(400 * ms)
	h.Tick(400 * ms)
	if _, held := h.LeaseEnd(); !held {
		t.Error("a late tick of a process that ran voids the lease")
	}
	h.MarkRunning(300 * ms) // told late
	h.Tick(480 * ms)
	if _, held := h.LeaseEnd(); !held {
		t.Error("80 ms without a tick are a pause")
	}
	h.MarkRunning(500 * ms)
	h.Tick(500 * ms)
	if _, held := h.LeaseEnd(); held {
		t.Error("the lease outlasts its end")
	}
}

// A node has no timing of its own: the answer contains how long it serves, when it must have
// cut, and which gap is a pause.
func TestHolderObeysTheAnswer(t *testing.T) {
	h := agent.NewLeaseHolder(1, 0)
	h.NextHeartbeat(0)
	h.HandleAnswer(10*ms, 1, ack.Answer{Term: 1, Number: 7, Boot: 1, HeartbeatNumber: 1, ServeFor: 3 * time.Second, AbortAfter: 9 * time.Second, LeaseDuration: 4 * time.Second})
	h.Tick(1010 * ms)
	if until, held := h.LeaseEnd(); !held || until != 3*time.Second {
		t.Errorf("until %v, %v after a pause of a quarter of the lease granted, want 3s", until, held)
	}
	h.NextHeartbeat(1010 * ms)
	h.HandleAnswer(1020*ms, 1, ack.Answer{Term: 1, Number: 8, Boot: 1, HeartbeatNumber: 2, ServeFor: 2500 * ms, AbortAfter: 5 * time.Second, LeaseDuration: 2500 * ms})
	h.Tick(1650 * ms)
	if _, held := h.LeaseEnd(); held {
		t.Error("a pause of a quarter of the newer lease left it in force")
	}
	if due := 1010*ms + 5*time.Second; h.AbortDue(due-ms) || !h.AbortDue(due) {
		t.Error("not cut when the answer said")
	}
}

// The lease of an old leader may run longer than the first one of its successor. The newest
// term determines which map the node must have.
func TestLeaseNamesTheNewestTermThatGrantedIt(t *testing.T) {
	h := agent.NewLeaseHolder(1, 0)
	if h.Term() != 0 {
		t.Errorf("term %d without a lease", h.Term())
	}
	h = heldLease(t)
	h.NextHeartbeat(20 * ms)
	for _, step := range []struct {
		term  uint64
		serve time.Duration
		want  uint64
	}{{1, 500 * ms, 1}, {3, 0, 1}, {3, 5 * ms, 1}, {3, 100 * ms, 3}} {
		h.HandleAnswer(30*ms, 1, ack.Answer{Term: step.term, Number: 9, Boot: 1, HeartbeatNumber: 2, ServeFor: step.serve})
		if h.Term() != step.want {
			t.Errorf("after %v of term %d: term %d, want %d", step.serve, step.term, h.Term(), step.want)
		}
	}
	if until, _ := h.LeaseEnd(); until != 520*ms {
		t.Errorf("until %v, want what the old one granted", until)
	}
	h.Void()
	if h.Term() != 0 {
		t.Errorf("term %d of a lease that has ended", h.Term())
	}
}

// Running requests are cut 0.85 × dead-after − lease after the end of the lease, also if the
// lease was voided early; once, and not if it is renewed.
func TestRunningRequestsAreCutOnce(t *testing.T) {
	h := heldLease(t)
	ticks(h, 10*ms, 100*ms)
	h.Void()
	due := 500*ms + ack.DefaultTiming().AbortDelay()
	ticks(h, 100*ms, due-ms)
	if h.AbortDue(due - ms) {
		t.Error("cut too early")
	}
	if !h.AbortDue(due) || h.AbortDue(due) {
		t.Error("not cut, or twice")
	}
	h.NextHeartbeat(due)
	h.HandleAnswer(due+ms, 1, grants(9, 2, 500*ms))
	if h.AbortDue(due + ms) {
		t.Error("cut with a lease in force")
	}
	if fresh := agent.NewLeaseHolder(1, 0); fresh.AbortDue(time.Hour) {
		t.Error("cut, and nothing was ever admitted")
	}
}

func TestNewBootForgetsTheOldOne(t *testing.T) {
	h := heldLease(t)
	h.Reboot(1)
	if _, held := h.LeaseEnd(); !held {
		t.Error("the same boot ended the lease")
	}
	h.Reboot(4)
	if _, held := h.LeaseEnd(); held || h.Boot() != 4 {
		t.Errorf("boot %d, lease %v", h.Boot(), held)
	}
	if number, echo := h.NextHeartbeat(20 * ms); number != 1 || echo != (ack.Echo{}) {
		t.Errorf("heartbeat %d, echo %+v, want the first of a boot", number, echo)
	}
	if h.HandleAnswer(30*ms, 1, grants(8, 1, 500*ms)) {
		t.Error("an answer to the old boot counted")
	}
	due := 500*ms + ack.DefaultTiming().AbortDelay()
	ticks(h, 30*ms, due)
	if !h.AbortDue(due) {
		t.Error("what the old boot ran is not cut")
	}
}
