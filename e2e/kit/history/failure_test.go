package history_test

import (
	"testing"
	"time"

	"shardway/e2e/kit/history"
	"shardway/internal/problem"
)

// Node a has a fault from 100 to 200; if it was killed, it was dead by 120. There is a
// shard of a and one of b, and requests that failed in all possible ways.
func TestOnlyFaultsExcuseFailures(t *testing.T) {
	const ofA, ofB, ofC = "key-0", "key-1", "key-2"
	response := func(target, key, method string, sent, done int64) history.Response {
		return history.Response{ID: "x", Key: key, Method: method, Attempts: []history.Attempt{{Target: target, Sent: sent, Done: done}}}
	}
	problem := func(resp history.Response, status int, code, detail string) history.Response {
		resp.Status, resp.Error, resp.Detail = status, code, detail
		return resp
	}
	truncated := func(resp history.Response, app string) history.Response {
		resp.Status, resp.Truncated, resp.App = 200, true, app
		return resp
	}
	fenced := func(resp history.Response) history.Response {
		resp.Status, resp.App, resp.EchoID = 409, "a", resp.ID
		return resp
	}
	connectionLost := func(resp history.Response) history.Response {
		return problem(resp, 502, "peer-unreachable", mayHaveRun)
	}
	for _, c := range []struct {
		name    string
		kind    history.FaultKind
		resp    history.Response
		excused bool
	}{
		{"no response when the node dies", history.Killed, response("a", ofB, "GET", 105, 115), true},
		{"no response before the death", history.Killed, response("a", ofB, "GET", 90, 99), false},
		{"no response after the death", history.Killed, response("a", ofB, "GET", 130, 140), false},
		{"no response from another node", history.Killed, response("b", ofA, "GET", 105, 115), false},
		{"no response from a paused node", history.Paused, response("a", ofA, "GET", 105, 115), false},
		{"no response after SIGTERM", history.Terminated, response("a", ofA, "GET", 105, 115), false},
		{"truncated by the death of the owner", history.Killed, truncated(response("b", ofA, "GET", 105, 115), "a"), true},
		{"truncated response of another app", history.Killed, truncated(response("b", ofA, "GET", 105, 115), "b"), false},
		{"truncated response for another key", history.Killed, truncated(response("b", ofB, "GET", 105, 115), "b"), false},
		{"truncated by the death of the app", history.AppDown, truncated(response("b", ofA, "GET", 105, 115), "a"), true},
		{"truncated after SIGTERM", history.Terminated, truncated(response("b", ofA, "GET", 105, 115), "a"), false},
		{"a POST that may have run", history.Killed, connectionLost(response("b", ofA, "POST", 90, 129)), true},
		{"a POST that may have run, too late", history.Killed, connectionLost(response("b", ofA, "POST", 90, 131)), false},
		{"a GET that may have run", history.Killed, connectionLost(response("b", ofA, "GET", 90, 129)), false},
		{"a POST without the detail that it may have run", history.Paused, problem(response("b", ofA, "POST", 90, 129), 502, "upstream-broken", ""), false},
		{"a POST for another key", history.Killed, connectionLost(response("b", ofB, "POST", 90, 129)), false},
		{"a POST until SettleTime after the fault", history.Paused, connectionLost(response("b", ofA, "POST", 90, 209)), true},
		{"a POST later than SettleTime after the fault", history.Paused, connectionLost(response("b", ofA, "POST", 90, 211)), false},
		{"a POST until the kernel retransmits", history.Unreachable, connectionLost(response("b", ofA, "POST", 90, 309)), true},
		{"a POST later than the retransmission", history.Unreachable, connectionLost(response("b", ofA, "POST", 90, 311)), false},
		{"a POST before the fault", history.Killed, connectionLost(response("b", ofA, "POST", 80, 99)), false},
		{"a POST after SIGTERM", history.Terminated, connectionLost(response("b", ofA, "POST", 90, 129)), false},
		{"queued until the timeout", history.Unreachable, problem(response("a", ofB, "GET", 110, 160), 503, "no-leader", ""), true},
		{"queued for less than the timeout", history.Unreachable, problem(response("a", ofB, "GET", 110, 159), 503, "no-leader", ""), false},
		{"queued only after the fault", history.Unreachable, problem(response("a", ofB, "GET", 201, 260), 503, "no-leader", ""), false},
		{"a full queue", history.Unreachable, problem(response("a", ofB, "GET", 110, 160), 503, "queue-full", ""), false},
		{"unreachable owner", history.Unreachable, problem(response("b", ofA, "GET", 110, 160), 502, "peer-unreachable", ""), true},
		{"unreachable error for a dead owner", history.Killed, problem(response("b", ofA, "GET", 110, 129), 502, "peer-unreachable", ""), false},
		{"queued until the timeout, unreachable owner", history.Unreachable, problem(response("b", ofA, "GET", 110, 160), 503, "peer-unreachable", ""), true},
		{"queued for less than the timeout, unreachable owner", history.Unreachable, problem(response("b", ofA, "GET", 110, 159), 503, "peer-unreachable", ""), false},
		{"queued until the timeout, dead owner", history.Killed, problem(response("b", ofA, "GET", 110, 160), 503, "peer-unreachable", ""), false},
		{"dead app", history.AppDown, problem(response("b", ofA, "GET", 110, 160), 502, "upstream-refused", ""), true},
		{"refused connection of a live app", history.Paused, problem(response("b", ofA, "GET", 110, 160), 502, "upstream-refused", ""), false},
		{"fenced", history.Paused, fenced(response("b", ofA, "POST", 110, 160)), false},
		{"error response of the app", history.Killed, problem(response("b", ofA, "GET", 110, 129), 500, "", ""), false},
		{"an unknown problem", history.Killed, problem(response("b", ofA, "GET", 110, 129), 500, "internal", ""), false},
		{"misdirected request", history.Killed, problem(response("b", ofA, "GET", 110, 129), 421, "misrouted", ""), false},
	} {
		fault := history.Fault{Kind: c.kind, Node: "a", From: 100, Until: 200}
		if c.kind == history.Killed || c.kind == history.AppDown {
			fault.LatestExit = 120
		}
		observed := history.History{
			Responses: []history.Response{c.resp}, Faults: []history.Fault{fault},
			Maps: []history.Map{{Epoch: 1, Owners: owners(map[string]string{ofA: "a", ofB: "b", ofC: "c"})}},
		}
		report := history.Check(observed, history.Rules{
			Shards: shards, QueueWait: 50, SettleTime: 10, Lease: 20,
			Targets: map[string]string{"a": "a", "b": "b", "c": "c"},
		})
		excused := 0
		for _, n := range report.ExcusedFailures {
			excused += n
		}
		if got := excused > 0; got != c.excused {
			t.Errorf("%s: excused %v, want %v\n%v", c.name, report.ExcusedFailures, c.excused, report.Violations)
		}
	}
}

// A GET failed after its connection broke.
func TestSafeRequestFailsOnlyAfterThreeTries(t *testing.T) {
	for runs, want := range map[int]int{1: 1, 2: 1, 3: 0} {
		builder := validHistory()
		builder.addFault(history.Unreachable, "b", -10, 0, 5000)
		builder.addRequest("x", "GET", key(1), "b", 9, 5)
		for range runs - 1 {
			builder.addRun("x", "GET", key(1), "b", 9, 5)
		}
		builder.failLast("upstream-broken", 1000)
		if report := history.Check(builder.History, history.Rules{Shards: shards}); report.Count(history.Failed) != want || len(report.Violations) != want {
			t.Errorf("after %d runs: %v\n%v", runs, report, report.Violations)
		}
	}
}

// One of three tries of a GET reached no app: the path to the owner was interrupted
// twice.
func TestLostSendCountsAsTry(t *testing.T) {
	for interruptions, want := range map[int]int{1: 1, 2: 0} {
		builder := validHistory()
		for i := range interruptions {
			builder.addFault(history.Unreachable, "b", int64(10*i-10), 0, 5000)
		}
		builder.addRequest("x", "GET", key(1), "b", 9, 5)
		builder.addRun("x", "GET", key(1), "b", 9, 5)
		builder.failLast("upstream-broken", 1000)
		if report := history.Check(builder.History, history.Rules{Shards: shards}); report.Count(history.Failed) != want || len(report.Violations) != want {
			t.Errorf("after %d interruptions: %v\n%v", interruptions, report, report.Violations)
		}
	}
}

// A large POST reached an app that had restarted and did not hold its shard.
func TestShardNotHeldExcusesOneRequest(t *testing.T) {
	const of = "key-2"
	detail := problem.UnheldInPart
	for _, c := range []struct {
		name, detail string
		without      string // the node whose app was down
		ran          int64  // end of a run there since the restart; 0 means none
		done         int64  // when the response came
		want         int
	}{
		{"first request since the restart of the app", detail, "c", 0, 4000 * ms, 0},
		{"response before the test noticed the restart", detail, "c", 0, 140 * ms, 0},
		{"response before the exit of the app", detail, "c", 0, 109 * ms, 1},
		{"another request ran just before", detail, "c", 3800 * ms, 4000 * ms, 0},
		{"another request ran long before", detail, "c", 700 * ms, 4000 * ms, 1},
		{"another app restarted", detail, "b", 0, 4000 * ms, 1},
		{"no app restarted", detail, "", 0, 4000 * ms, 1},
		{"the app broke the connection, without the detail", "the app broke the connection", "c", 0, 4000 * ms, 1},
	} {
		observed := history.History{Maps: []history.Map{{Epoch: 1, Owners: owners(map[string]string{"key-0": "a", "key-1": "b", of: "c"})}}}
		if c.without != "" {
			observed.Faults = append(observed.Faults, history.Fault{Kind: history.AppDown, Node: c.without, From: 100 * ms, LatestExit: 110 * ms, Until: 150 * ms})
		}
		attempt := func(sent, done int64) []history.Attempt {
			return []history.Attempt{{Target: "a", Sent: sent, Done: done}}
		}
		if c.ran > 0 {
			observed.Runs = append(observed.Runs, history.Run{App: "c", Node: "c", Shard: shardOf(of), Epoch: 1, Key: of, ID: "y", Method: "POST", Seq: 1, Start: c.ran - 5*ms, End: c.ran})
			observed.Responses = append(observed.Responses, history.Response{
				ID: "y", Key: of, Method: "POST", Status: 200, App: "c", EchoID: "y", Count: 1, Attempts: attempt(c.ran-6*ms, c.ran+ms),
			})
		}
		observed.Responses = append(observed.Responses, history.Response{
			ID: "x", Key: of, Method: "POST", Status: 502, Error: "upstream-broken", Detail: c.detail, Attempts: attempt(50*ms, c.done),
		})
		report := history.Check(observed, history.Rules{Shards: shards, Targets: map[string]string{"a": "a", "b": "b", "c": "c"}})
		if len(report.Violations) != c.want {
			t.Errorf("%s: %v\n%v", c.name, report, report.Violations)
		}
	}
}

// A POST ran at the only live node of three. Its lease ended later than the other nodes
// died, and they were back sooner.
func TestLostMajorityAbortsWhenLeaseEnds(t *testing.T) {
	const of = "key-2"
	for done, want := range map[time.Duration]int{2200 * time.Millisecond: 0, 4200 * time.Millisecond: 1} {
		observed := history.History{Maps: []history.Map{{Epoch: 1, Owners: owners(map[string]string{"key-0": "a", "key-1": "b", of: "c"})}}}
		for _, node := range []string{"a", "b"} {
			observed.Faults = append(observed.Faults, history.Fault{Kind: history.Killed, Node: node, From: 100 * ms, LatestExit: 110 * ms, Until: 1600 * ms})
		}
		observed.Responses = []history.Response{{
			ID: "x", Key: of, Method: "POST", Status: 502, Error: "upstream-broken", Detail: mayHaveRun,
			Attempts: []history.Attempt{{Target: "c", Sent: 50 * ms, Done: int64(done)}},
		}}
		report := history.Check(observed, history.Rules{Shards: shards, Targets: map[string]string{"a": "a", "b": "b", "c": "c"}})
		if len(report.Violations) != want {
			t.Errorf("after %v: %v\n%v", done, report, report.Violations)
		}
	}
}

// A POST was aborted as the lease of its node ended. One of three owners is isolated, and
// none, one or both of two gateways.
func TestGatewayCountsForMajority(t *testing.T) {
	const of = "key-2"
	for gone, want := range []int{1, 1, 0} {
		observed := history.History{Maps: []history.Map{{Epoch: 1, Owners: owners(map[string]string{"key-0": "a", "key-1": "b", of: "c"})}}}
		for _, node := range []string{"a", "g1", "g2"}[:1+gone] {
			observed.Faults = append(observed.Faults, history.Fault{Kind: history.Unreachable, Node: node, From: 100 * ms, Until: 9000 * ms})
		}
		observed.Responses = []history.Response{{
			ID: "x", Key: of, Method: "POST", Status: 502, Error: "upstream-broken", Detail: mayHaveRun,
			Attempts: []history.Attempt{{Target: "c", Sent: 50 * ms, Done: 2700 * ms}},
		}}
		report := history.Check(observed, history.Rules{Shards: shards, Gateways: []string{"g1", "g2"}})
		if len(report.Violations) != want {
			t.Errorf("%d gateways gone: %v\n%v", gone, report, report.Violations)
		}
	}
}

// A POST continued at a node whose shard was taken over after a forged reset. Without a
// lease its node aborts it, later than the resets end. A request that its app ended has
// no such excuse.
func TestExcludedNodeAbortsWhenLeaseEnds(t *testing.T) {
	for _, c := range []struct {
		done time.Duration
		cut  bool
		want int
	}{
		{3400 * time.Millisecond, true, 0}, {3600 * time.Millisecond, true, 1}, {2100 * time.Millisecond, false, 1},
	} {
		observed := history.History{
			Maps:   []history.Map{{Epoch: 1, Owners: owners(map[string]string{"key-0": "a", "key-1": "b", "key-2": "c"})}},
			Faults: []history.Fault{{Kind: history.Reset, Node: "c", From: 100 * ms, Until: 1000 * ms}},
			Runs:   []history.Run{{ID: "x", App: "c", Shard: shardOf("key-2"), Epoch: 1, Method: "POST", Start: 60 * ms, End: int64(c.done), Aborted: c.cut}},
			Responses: []history.Response{{
				ID: "x", Key: "key-2", Method: "POST", Status: 502, Error: "upstream-broken", Detail: mayHaveRun,
				Attempts: []history.Attempt{{Target: "c", Sent: 50 * ms, Done: int64(c.done)}},
			}},
		}
		report := history.Check(observed, history.Rules{Shards: shards, Targets: map[string]string{"a": "a", "b": "b", "c": "c"}})
		if report.Count(history.FailedLate) != c.want {
			t.Errorf("%+v: %v\n%v", c, report, report.Violations)
		}
	}
}

// A node a is unreachable from 100 to 900. Node b serves its shard from 200 on. A map
// returns the shard to a at 300, or as given, and to b at 400. A POST fails in the meantime.
func TestOwnerThatRegainsShardDuringFaultIsExcusedAgain(t *testing.T) {
	const k = "key-0"
	for _, c := range []struct {
		name        string
		reachableAt int64 // when a is reachable again
		back, again int64 // when a map assigns the shard to a, and the next one to b; 0 means never
		done        int64
		want        bool
	}{
		{"node a had regained the shard", 900, 300, 400, 409, true},
		{"node a had regained the shard, failed too late", 900, 300, 400, 411, false},
		{"node b kept the shard", 900, 0, 0, 409, false},
		{"node a regained the shard after the fault", 290, 300, 400, 409, false},
		{"node a regained the shard after the failure", 900, 410, 0, 409, false},
	} {
		mine, others := owners(map[string]string{k: "a"}), owners(map[string]string{k: "b"})
		run := func(epoch uint64, start int64) history.Run {
			return history.Run{App: "b", Node: "b", ID: "of b", Method: "POST", Key: k, Shard: shardOf(k), Epoch: epoch, Start: start, End: start + 1}
		}
		observed := history.History{
			Faults: []history.Fault{{Kind: history.Unreachable, Node: "a", From: 100, Until: c.reachableAt}},
			Maps:   []history.Map{{Epoch: 1, Owners: mine}, {Epoch: 2, At: 200, Owners: others}},
			Runs:   []history.Run{run(2, 200)},
			Responses: []history.Response{{
				ID: "x", Key: k, Method: "POST", Status: 502, Error: "peer-unreachable", Detail: mayHaveRun,
				Attempts: []history.Attempt{{Target: "c", Sent: 310, Done: c.done}},
			}},
		}
		if c.back > 0 {
			observed.Maps = append(observed.Maps, history.Map{Epoch: 3, At: c.back, Owners: mine})
		}
		if c.again > 0 {
			observed.Maps = append(observed.Maps, history.Map{Epoch: 4, At: c.again, Owners: others})
			observed.Runs = append(observed.Runs, run(4, c.again))
			observed.Runs[1].Seq, observed.Runs[1].ID = 1, "of b too"
		}
		report := history.Check(observed, history.Rules{
			Shards: shards, QueueWait: 500, SettleTime: 10, Lease: 20, Targets: map[string]string{"a": "a", "b": "b", "c": "c"},
		})
		if got := len(report.ExcusedFailures) > 0; got != c.want {
			t.Errorf("%s: excused %v, want %v\n%v", c.name, report.ExcusedFailures, c.want, report.Violations)
		}
	}
}

// owners returns the owners of all shards, from the owners of some keys. The other shards are orphaned.
func owners(ownerOfKey map[string]string) []string {
	all := make([]string, shards)
	for key, node := range ownerOfKey {
		all[shardOf(key)] = node
	}
	return all
}

// A node is paused for less than a lease, twice, and a POST fails in the meantime. Pauses with
// hardly a break between them count as one.
func TestPauseShorterThanLeaseIsNoExcuse(t *testing.T) {
	for _, c := range []struct {
		name  string
		stops [][2]int64
		want  int
	}{
		{"short", [][2]int64{{10, 509}}, 1},
		{"as long as a lease", [][2]int64{{10, 510}}, 0},
		{"two short pauses", [][2]int64{{10, 309}, {809, 1000}}, 1},
		{"two pauses that count as one", [][2]int64{{10, 309}, {808, 1000}}, 0},
	} {
		builder := validHistory()
		for _, stop := range c.stops {
			builder.addFault(history.Paused, "b", stop[0], 0, stop[1])
		}
		builder.addRequest("x", "POST", key(1), "b", 9, 5)
		builder.failLast("peer-unreachable", 400)
		if report := history.Check(builder.History, history.Rules{Shards: shards}); report.Count(history.Failed) != c.want || len(report.Violations) != c.want {
			t.Errorf("%s: %v\n%v", c.name, report, report.Violations)
		}
	}
}

// No fault is needed: a request that runs longer than the drain timeout is aborted when
// its shard moves.
func TestDrainTimeoutExcusesAbort(t *testing.T) {
	for elapsed, want := range map[int64]int{4999: 1, 5000: 0} {
		builder := validHistory()
		builder.addRequest("x", "GET", key(1), "b", 9, elapsed)
		builder.Runs[len(builder.Runs)-1].Aborted = true
		builder.failLast("shard-moved", elapsed)
		if report := history.Check(builder.History, history.Rules{Shards: shards}); len(report.Violations) != want || report.ExcusedFailures["aborted after the drain timeout"] != 1-want {
			t.Errorf("after %v: %v\n%v", time.Duration(elapsed*ms), report, report.Violations)
		}
	}
}

// An app responds while its node is paused. After the pause the drain timeout is over,
// and the node aborts the request before it reads the response. There is no excuse if the
// pause was earlier or later, or if the node had time to read.
func TestAbortAfterPauseIsExcused(t *testing.T) {
	for _, c := range []struct {
		name       string
		began      int64 // of a run that ends at 4000
		from, till int64 // of the pause; the response comes at 5500
		want       int
	}{
		{"aborted when the node continues", 0, 3000, 5400, 0},
		{"aborted before the drain timeout", 501, 3000, 5400, 1},
		{"paused after the run", 0, 4001, 5400, 1},
		{"continued before the run ended", 0, 3000, 3999, 1},
		{"continued long before", 0, 3000, 5249, 1},
		{"still paused", 0, 3000, 5501, 1},
	} {
		builder := validHistory()
		builder.now += c.began
		builder.addRequest("x", "GET", key(1), "b", 9, 4000-c.began)
		builder.now -= c.began
		at := func(t int64) int64 { return (builder.now + t) * ms }
		builder.failLast("shard-moved", 0)
		builder.Responses[len(builder.Responses)-1].Attempts[0].Done = at(5500)
		builder.Faults = []history.Fault{{Kind: history.Paused, Node: "b", From: at(c.from), Until: at(c.till)}}
		if report := history.Check(builder.History, history.Rules{Shards: shards}); len(report.Violations) != c.want || report.ExcusedFailures["aborted after the drain timeout"] != 1-c.want {
			t.Errorf("%s: %v\n%v", c.name, report, report.Violations)
		}
	}
}

// The first node of a GET dies. Another idle connection to it may have been tried next.
// At the second node the connection breaks.
func TestTryOverConnectionOfDeadNodeCounts(t *testing.T) {
	for _, c := range []struct {
		name    string
		end     int64 // of the first run; its node died from 500 to 510
		aborted bool
		want    int
	}{
		{"the node died during the run", 510, true, 0},
		{"the app noticed the death late", 760, true, 0},
		{"aborted before the death", 499, true, 1},
		{"aborted long after the death", 761, true, 1},
		{"not aborted", 510, false, 1},
	} {
		observed := history.History{
			Maps: []history.Map{{Epoch: 1, Owners: owners(map[string]string{"key-0": "a", "key-1": "b", "key-2": "c"})}},
			Faults: []history.Fault{
				{Kind: history.Killed, Node: "c", From: 500 * ms, LatestExit: 510 * ms},
				{Kind: history.LogDelayed, Node: "b", From: 1500 * ms},
			},
			Runs: []history.Run{
				{ID: "x", App: "c", Node: "c", Key: "key-2", Shard: shardOf("key-2"), Epoch: 1, Method: "GET", Start: 60 * ms, End: c.end * ms, Aborted: c.aborted},
				{ID: "x", App: "b", Node: "b", Key: "key-2", Shard: shardOf("key-2"), Epoch: 2, Method: "GET", Start: 1000 * ms, End: 3000 * ms},
			},
			Responses: []history.Response{{
				ID: "x", Key: "key-2", Method: "GET", Status: 502, Error: "peer-unreachable", Detail: mayHaveRun,
				Attempts: []history.Attempt{{Target: "a", Sent: 50 * ms, Done: 4000 * ms}},
			}},
		}
		report := history.Check(observed, history.Rules{Shards: shards})
		if len(report.Violations) != c.want {
			t.Errorf("%s: %v\n%v", c.name, report, report.Violations)
		}
	}
}
