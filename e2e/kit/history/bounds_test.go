package history_test

import (
	"fmt"
	"testing"
	"time"

	"shardway/e2e/kit/history"
)

// failLast gives the last request a 502 with the detail that it may have run. The response arrives
// duration after the request was sent.
func (s *historyBuilder) failLast(code string, duration int64) {
	resp := &s.Responses[len(s.Responses)-1]
	resp.Status, resp.Error, resp.Detail, resp.App, resp.EchoID = 502, code, mayHaveRun, "", ""
	last := &resp.Attempts[len(resp.Attempts)-1]
	last.Done = last.Sent + duration*ms
}

// setLastDuration sets the duration of the first attempt of the last request.
func (s *historyBuilder) setLastDuration(duration int64) {
	first := &s.Responses[len(s.Responses)-1].Attempts[0]
	first.Sent = first.Done - duration*ms
}

// addQueueTimeout adds a request that timed out in the queue of a node.
func (s *historyBuilder) addQueueTimeout(key, node string) {
	s.Responses = append(s.Responses, history.Response{
		ID: "x", Key: key, Method: "POST", Status: 503, Error: "queue-timeout",
		Attempts: []history.Attempt{{Target: node, Sent: s.now * ms, Done: (s.now + 10_000) * ms}},
	})
}

// addFault adds a fault. The times are relative to now. 0 means that the process does not exit, or that
// the fault does not end.
func (s *historyBuilder) addFault(kind history.FaultKind, node string, from, exitedBy, until int64) {
	absolute := func(offset int64) int64 {
		if offset == 0 {
			return 0
		}
		return (s.now + offset) * ms
	}
	s.Faults = append(s.Faults, history.Fault{Kind: kind, Node: node, From: absolute(from), LatestExit: absolute(exitedBy), Until: absolute(until)})
}

const mayHaveRun = "the connection broke after the request was sent: it may have run"

// The test plants histories that an earlier checker accepted, since every fault excused
// failures until the end of its round. With the number wrong, each differs from a valid
// history by the smallest possible amount. With the number right, it is valid.
func TestExcusesOfOlderCheckerAreRejected(t *testing.T) {
	for _, c := range []struct {
		name string
		want history.Kind
		// Check must reject the history with the number wrong, and accept it with right.
		wrong, right int64
		takeover     string
		plant        func(builder *historyBuilder, n int64)
	}{
		{"a request answered 503 that ran", history.DeniedRun, 1, 0, "lease", func(builder *historyBuilder, n int64) {
			builder.addFault(history.Paused, "b", 10, 0, 11_000)
			builder.addQueueTimeout(key(1), "b")
			if n > 0 {
				builder.addRun("x", "POST", key(1), "b", 9, 5)
			}
		}},
		// A paused node has dead-after, with any takeover: its lease was granted at most
		// half a second before it was last observed.
		{"a pause shorter than dead-after", history.TwoOwners, 1999, 2000, "lease", takeoverAfterFault(history.Paused)},
		{"a pause shorter than dead-after, takeover immediate", history.TwoOwners, 1999, 2000, "immediate", takeoverAfterFault(history.Paused)},
		{"a pause shorter than dead-after, takeover timeout", history.TwoOwners, 1999, 2000, "timeout", takeoverAfterFault(history.Paused)},
		// For a dead node, and after a forged refusal, the time depends on the takeover.
		{"a death shorter than a lease", history.TwoOwners, 49, 50, "lease", takeoverAfterFault(history.Killed)},
		{"a death shorter than dead-after, takeover timeout", history.TwoOwners, 1999, 2000, "timeout", takeoverAfterFault(history.Killed)},
		{"a forged refusal shorter than a lease", history.TwoOwners, 49, 50, "lease", func(builder *historyBuilder, n int64) {
			builder.addFault(history.Reset, "a", 1, 0, 6000)
			builder.Faults[0].Peer = "b"
			builder.addRequest("x", "POST", key(1), "a", 10, 2000)
			builder.now += n
			builder.addRequest("y", "POST", key(1), "b", 11, 5)
		}},
		{"continues after an early acknowledgement", history.TwoOwners, 1, 0, "lease", acknowledgeEarly},
		{"continues after an early acknowledgement, takeover timeout", history.TwoOwners, 1, 0, "timeout", acknowledgeEarly},
		{"continues after an early acknowledgement, a fault elsewhere", history.TwoOwners, 1, 0, "lease", func(builder *historyBuilder, n int64) {
			builder.addFault(history.Killed, "c", 1, 2, 9000)
			acknowledgeEarly(builder, n)
		}},
		{"idle connection closed", history.ClosedIdle, 1, 0, "lease", func(builder *historyBuilder, n int64) {
			builder.addRequest("x", "POST", key(1), "b", 9, 5)
			builder.addEarlierAttempts(history.Attempt{Target: "b", Reused: true, Err: "EOF"}, n)
		}},
		{"idle connection closed by SIGTERM", history.ClosedIdle, 1, 0, "lease", func(builder *historyBuilder, n int64) {
			builder.addFault(history.Terminated, "c", -100, 500, 0)
			builder.addRequest("x", "POST", key(1), "b", 9, 5)
			builder.addEarlierAttempts(history.Attempt{Target: "c", Reused: true, Err: "EOF"}, n)
		}},
		{"idle connection closed by SIGTERM, a GET before drain-timeout", history.ClosedIdle, 4900, 5100, "lease", func(builder *historyBuilder, n int64) {
			builder.addFault(history.Terminated, "c", -100, 9000, 0)
			builder.addRequest("x", "GET", key(1), "b", 9, 6000)
			builder.addEarlierAttempts(history.Attempt{Target: "c", Reused: true, Err: "EOF"}, 1)
			builder.setLastDuration(n)
		}},
		{"idle connection closed by SIGTERM, a POST after drain-timeout", history.ClosedIdle, 5100, 0, "lease", func(builder *historyBuilder, n int64) {
			builder.addFault(history.Terminated, "c", -100, 9000, 0)
			builder.addRequest("x", "POST", key(1), "b", 9, 6000)
			builder.addEarlierAttempts(history.Attempt{Target: "c", Reused: true, Err: "EOF"}, min(n, 1))
			builder.setLastDuration(n)
		}},
		{"idle connection closed before a death", history.ClosedIdle, 1, -1, "lease", func(builder *historyBuilder, n int64) {
			builder.addFault(history.Killed, "c", n, 20, 0)
			builder.addRequest("x", "POST", key(1), "b", 9, 5)
			builder.addEarlierAttempts(history.Attempt{Target: "c", Reused: true, Err: "EOF"}, 1)
		}},
		{"no listener at a node that should run", history.NotListening, 1, 0, "lease", func(builder *historyBuilder, n int64) {
			builder.addRequest("x", "POST", key(1), "b", 9, 5)
			builder.addEarlierAttempts(history.Attempt{Target: "c", Refused: true, Err: "refused"}, n)
		}},
		{"no listener long after the start", history.NotListening, -10_003, -10_002, "lease", func(builder *historyBuilder, n int64) {
			builder.addFault(history.Killed, "c", -20_000, -19_990, n)
			builder.addRequest("x", "POST", key(1), "b", 9, 5)
			builder.addEarlierAttempts(history.Attempt{Target: "c", Refused: true, Err: "refused"}, 1)
		}},
		{"a 502 long after the shard was served again", history.FailedLate, 4001, 3999, "lease", func(builder *historyBuilder, n int64) {
			builder.addRequest("x", "POST", key(1), "b", 9, 5)
			builder.failLast("peer-unreachable", n+1)
			builder.addFault(history.Paused, "b", 1, 0, 9000)
			builder.now += 3000
			builder.addRequest("y", "GET", key(1), "a", 10, 5)
		}},
		{"a 502 long after a death", history.FailedLate, 1021, 1019, "lease", func(builder *historyBuilder, n int64) {
			builder.addRequest("x", "POST", key(1), "b", 9, 5)
			builder.failLast("peer-unreachable", n+1)
			builder.addFault(history.Killed, "b", 10, 20, 9000)
		}},
		{"a 502 long after the network was restored", history.FailedLate, 2001, 1999, "lease", func(builder *historyBuilder, n int64) {
			builder.addFault(history.Unreachable, "b", -1500, 0, -500)
			builder.now -= 600
			builder.addRequest("x", "POST", key(1), "b", 9, 5)
			builder.now += 600
			// It lasted for a second, so a retransmission may come another second later.
			builder.failLast("upstream-broken", 101+n)
		}},
		{"a 502 long after the end of a long network fault", history.FailedLate, 3501, 3499, "lease", func(builder *historyBuilder, n int64) {
			builder.addFault(history.Unreachable, "b", -10_000, 0, -500)
			builder.now -= 600
			builder.addRequest("x", "POST", key(1), "b", 9, 5)
			builder.now += 600
			builder.failLast("upstream-broken", 101+n)
		}},
		{"a 502 long after forged resets", history.FailedLate, 1001, 999, "lease", func(builder *historyBuilder, n int64) {
			builder.addFault(history.Reset, "b", -10_000, 0, -500)
			builder.Faults[0].Peer = "c"
			builder.now -= 600
			builder.addRequest("x", "POST", key(1), "b", 9, 5)
			builder.now += 600
			builder.failLast("upstream-broken", 101+n)
		}},
		{"a 503 after the fault", history.FailedLate, -1, 1, "lease", func(builder *historyBuilder, n int64) {
			builder.addFault(history.Unreachable, "b", -5000, 0, n)
			builder.addQueueTimeout(key(1), "b")
		}},
		{"a 503 after the shard was served again", history.FailedLate, 8_999, 9_001, "lease", func(builder *historyBuilder, n int64) {
			builder.addFault(history.Unreachable, "b", -10, 0, 60_000)
			builder.addQueueTimeout(key(1), "c")
			builder.now += n
			builder.addRequest("y", "GET", key(1), "a", 10, 5)
		}},
		{"a false exclusion after a kill", history.FalseExclusion, 1, 0, "lease", func(builder *historyBuilder, n int64) {
			builder.addFault(history.Killed, "c", 10, 20, 900)
			builder.addMap(9, "a", "b", "c")
			builder.now += 700
			if n > 0 {
				builder.addMap(10, "a", "a", "a")
			} else {
				builder.addMap(10, "a", "b", "a")
			}
		}},
		{"a false exclusion, the node stalled", history.FalseExclusion, 2501, 2500, "lease", func(builder *historyBuilder, n int64) {
			builder.addFault(history.Stalled, "c", -150, 0, 1)
			builder.addMap(9, "a", "b", "c")
			builder.now += n + 1
			builder.addMap(10, "a", "b", "a")
		}},
		{"a false exclusion, another node stalled", history.FalseExclusion, 1, 0, "lease", func(builder *historyBuilder, n int64) {
			builder.addFault(history.Stalled, []string{"c", "b"}[n], -150, 0, 1)
			builder.addMap(9, "a", "b", "c")
			builder.now += 100
			builder.addMap(10, "a", "b", "a")
		}},
		// Dead-after, drain-timeout + 1 s, and one second until the map is observed.
		{"a false exclusion long after a kill", history.FalseExclusion, 10_402, 10_400, "lease", func(builder *historyBuilder, n int64) {
			builder.addFault(history.Killed, "c", 10, 20, 900)
			builder.addMap(9, "a", "b", "c")
			builder.now += n
			builder.addMap(10, "a", "b", "a")
		}},
		// The log contained the commit, and there was no majority for four seconds.
		{"a false exclusion long after a kill, without a majority meanwhile", history.FalseExclusion, 14_402, 14_400, "lease", func(builder *historyBuilder, n int64) {
			builder.addFault(history.Killed, "c", 10, 20, 900)
			builder.addFault(history.Paused, "a", 1000, 0, 5000)
			builder.addFault(history.Paused, "b", 1000, 0, 5000)
			builder.addMap(9, "a", "b", "c")
			builder.now += n
			builder.addMap(10, "a", "b", "a")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, n := range []int64{c.wrong, c.right} {
				builder := validHistory()
				builder.now += 30_000
				c.plant(builder, n)
				report := history.Check(builder.History, history.Rules{Shards: shards, Takeover: c.takeover})
				want := 0
				if n == c.wrong {
					want = 1
				}
				if report.Count(c.want) != want || len(report.Violations) != want {
					t.Errorf("with %d: violations = %v, want %d of %q\n%v", n, report.Violations, want, c.want, report)
				}
			}
		})
	}
}

// takeoverAfterFault returns a function that adds a takeover n milliseconds after a fault of node a. The
// node certainly holds a lease at 0, because it runs a request of another shard. Right after that, while it
// runs a long request, it is paused or dies.
func takeoverAfterFault(kind history.FaultKind) func(builder *historyBuilder, n int64) {
	return func(builder *historyBuilder, n int64) {
		from, by := int64(1), int64(0)
		if kind == history.Killed {
			from, by = max(1, n-100), n+10 // it is not known when it was certainly dead
		}
		builder.addRequest("old", "POST", key(1), "a", 10, n+30)
		builder.addRequest("lease", "GET", "another-key", "a", 10, 1)
		builder.addFault(kind, "a", from, by, n+60_000)
		builder.now += n
		builder.addRequest("next", "POST", key(1), "b", 11, 5)
	}
}

// acknowledgeEarly adds a handover by node a, whose app runs a request of the shard for another n
// milliseconds. The node has aborted the request.
func acknowledgeEarly(builder *historyBuilder, n int64) {
	builder.addRequest("old", "POST", key(1), "a", 10, 300+n)
	builder.Runs[len(builder.Runs)-1].Aborted = true
	builder.now += 300
	builder.addRequest("next", "POST", key(1), "b", 11, 5)
}

// addEarlierAttempts adds n attempts before the others of the last request.
func (s *historyBuilder) addEarlierAttempts(attempt history.Attempt, n int64) {
	resp := &s.Responses[len(s.Responses)-1]
	attempt.Sent, attempt.Done = (s.now-2)*ms, s.now*ms
	for range n {
		resp.Attempts = append([]history.Attempt{attempt}, resp.Attempts...)
	}
}

// addMap adds a map of three shards.
func (s *historyBuilder) addMap(epoch uint64, owners ...string) {
	s.Maps = append(s.Maps, history.Map{Epoch: epoch, At: s.now * ms, Owners: owners})
}

// A request ran that got a 503 long before, according to Rules.OtherRequests.
func TestDeniedRequestMustNotRun(t *testing.T) {
	builder := validHistory()
	builder.addRun("before", "POST", key(1), "b", 9, 5)
	report := history.Check(builder.History, history.Rules{OtherRequests: map[string]bool{"before": true}})
	if report.Count(history.DeniedRun) != 1 || len(report.Violations) != 1 {
		t.Errorf("violations = %v", report.Violations)
	}
}

// A GET may be sent again, and then time out in the queue.
func TestSafeRequestMayRunBefore503(t *testing.T) {
	builder := validHistory()
	builder.addFault(history.Paused, "b", 10, 0, 11_000)
	builder.addQueueTimeout(key(1), "b")
	builder.Responses[len(builder.Responses)-1].Method = "GET"
	builder.addRun("x", "GET", key(1), "b", 9, 5)
	if report := history.Check(builder.History, history.Rules{Shards: shards}); report.Err() != nil || report.ExcusedFailures["timed out in the queue: queue-timeout"] != 1 {
		t.Errorf("%v\n%v", report, report.Violations)
	}
}

// Admissions are checked like runs: two nodes never admit requests of one shard at once,
// and a pause is no excuse.
func TestAdmissionIsCheckedLikeARun(t *testing.T) {
	for _, c := range []struct {
		name     string
		until    int64 // of a; that of b begins at 1000
		takeover string
		fault    history.FaultKind
		forged   int
	}{
		{"successive admissions", 1000, "lease", 0, 0},
		{"overlapping admissions", 1001, "lease", 0, -1},
		{"overlapping admissions, pause", 1001, "lease", history.Paused, -1},
		{"overlapping admissions, reset", 1001, "lease", history.Reset, -1},
		{"overlapping admissions, reset, takeover immediate", 1000 + lease + notice - 1, "immediate", history.Reset, 1},
		{"overlapping admissions, reset, takeover immediate, after the lease", 1000 + lease + notice, "immediate", history.Reset, -1},
	} {
		builder := validHistory()
		at := func(t int64) int64 { return (builder.now + t) * ms }
		builder.Admissions = []history.Admission{
			{Node: "a", Shard: 7, Epoch: 5, From: at(0), Until: at(c.until)},
			{Node: "b", Shard: 7, Epoch: 9, From: at(1000), Until: at(2000)},
		}
		if c.fault != 0 {
			builder.addFault(c.fault, "a", 500, 0, 5000)
		}
		report := history.Check(builder.History, history.Rules{Shards: shards, Takeover: c.takeover})
		if bad := report.Count(history.TwoOwners); report.ResetOverlaps != max(c.forged, 0) || bad != max(-c.forged, 0) || len(report.Violations) != bad {
			t.Errorf("%s: %v\n%v", c.name, report, report.Violations)
		}
	}
}

// A run begins right after a pause: its node was paused between its last check of the
// lease and the write.
func TestRunMayBeginRightAfterPause(t *testing.T) {
	for after, want := range map[int64]int{0: 0, 99: 0, 100: 1} {
		builder := validHistory()
		builder.addFault(history.Paused, "a", 0, 0, 4000)
		builder.now += 3000
		builder.addRequest("next", "POST", key(1), "b", 11, 5)
		builder.now += 1000 + after
		builder.addRequest("old", "POST", key(1), "a", 10, 20)
		report := history.Check(builder.History, history.Rules{Shards: shards, WakeTime: 100 * time.Millisecond})
		if report.Count(history.StaleEpoch) != want || len(report.Violations) != want || report.PauseOverlaps != 1-want {
			t.Errorf("%d ms after: %v\n%v", after, report, report.Violations)
		}
		if want == 0 {
			if report := history.Check(builder.History, history.Rules{Shards: shards}); report.Count(history.StaleEpoch) != 1 {
				t.Errorf("%d ms after, without Wake: %v", after, report.Violations)
			}
		}
	}
}

// With one clock that is 5 % slow, and another that is 5 % fast, a takeover may be
// earlier.
func TestClockSkewPermitsEarlierTakeover(t *testing.T) {
	builder := validHistory()
	takeoverAfterFault(history.Paused)(builder, 1900)
	for skew, want := range map[float64]int{0: 1, 0.1: 0} {
		if report := history.Check(builder.History, history.Rules{Shards: shards, MaxClockSkew: skew}); len(report.Violations) != want {
			t.Errorf("skew %v: %v", skew, report.Violations)
		}
	}
}

// A live node aborts its requests because no majority grants it a lease: not before half
// of dead-after.
func TestLostMajorityExcusesAbort(t *testing.T) {
	for since, want := range map[int64]int{750: 1, 749: 0} {
		builder := validHistory()
		builder.addFault(history.Terminated, "a", -10, 0, 20_000)
		builder.addFault(history.Paused, "c", since, 0, 20_000)
		builder.addRequest("x", "POST", key(1), "b", 9, 2000)
		builder.failLast("upstream-broken", 2001)
		report := history.Check(builder.History, history.Rules{Shards: shards, Targets: map[string]string{"1": "a", "2": "b", "3": "c", "x": "b"}})
		if len(report.Violations) != want {
			t.Errorf("from %d ms on: %v\n%v", since, report, report.Violations)
		}
	}
}

// A POST failed while the observer did not run for moments that are too short to fail a
// request.
func TestBriefStallsAreNoExcuse(t *testing.T) {
	for _, c := range []struct {
		gap  int64
		want int
	}{{500, 1}, {499, 0}} {
		builder := validHistory()
		for at := int64(1); at < 2000; at += 200 + c.gap {
			builder.addFault(history.Stalled, "", at, 0, at+200)
		}
		builder.addRequest("x", "POST", key(1), "b", 9, 900)
		builder.failLast("upstream-broken", 1000)
		if report := history.Check(builder.History, history.Rules{Shards: shards}); report.Count(history.Failed) != c.want || len(report.Violations) != c.want {
			t.Errorf("%d ms between them: %v\n%v", c.gap, report, report.Violations)
		}
		builder = validHistory()
		takeoverAfterFault(history.Paused)(builder, 1000)
		builder.addFault(history.Stalled, "", -5000, 0, 5000)
		if report := history.Check(builder.History, history.Rules{Shards: shards}); report.Count(history.TwoOwners) != 1 {
			t.Errorf("a busy machine has two owners: %v", report)
		}
	}
}

// A request at a node without a fault, for one of its own shards, fails without a
// majority.
func TestLostMajorityExcusesRequestsOfHealthyNode(t *testing.T) {
	for faulty, want := range map[int]int{0: 1, 1: 1, 2: 0} {
		builder := validHistory()
		builder.addMap(9, "a", "b", "c")
		builder.addQueueTimeout(key(1), "b")
		for i := range faulty {
			builder.addFault(history.Paused, fmt.Sprintf("%c", "ac"[i]), -10, 0, 20_000)
		}
		observed := builder.History
		observed.Runs, observed.Responses = nil, observed.Responses[len(observed.Responses)-1:]
		observed.Maps[0].Owners = make([]string, shards)
		for i := range shards {
			observed.Maps[0].Owners[i] = "b"
		}
		observed.Maps[0].Owners[shardOf(key(2))], observed.Maps[0].Owners[shardOf(key(3))] = "a", "c"
		report := history.Check(observed, history.Rules{Shards: shards, Targets: map[string]string{"1": "a", "2": "b", "3": "c", "4": "spare"}})
		if len(report.Violations) != want {
			t.Errorf("%d of three: %v\n%v", faulty, report, report.Violations)
		}
	}
}
