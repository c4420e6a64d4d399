package history_test

import (
	"testing"

	"shardway/e2e/kit/history"
)

// fiveOwners returns a history of five owners with one response and faults.
func fiveOwners(resp history.Response, faults ...history.Fault) history.History {
	return history.History{
		Maps:      []history.Map{{Epoch: 1, Owners: owners(map[string]string{"key-0": "a", "key-1": "b", "key-2": "c", "key-3": "d", "key-5": "e"})}},
		Responses: []history.Response{resp}, Faults: faults,
	}
}

// A POST of a node without a fault was aborted after its lease had ended: the leader was
// isolated, and a node whose vote the others needed was slow.
func TestLapsedLeaseExcusesAbort(t *testing.T) {
	apart := history.Fault{Kind: history.Unreachable, Node: "d", From: 100 * ms}
	slow := history.Fault{Kind: history.LogDelayed, Node: "e", From: 400 * ms, Until: 900 * ms}
	for _, c := range []struct {
		name   string
		end    int64 // of the run; its node had a lease until 500
		faults []history.Fault
		want   int
	}{
		{"long after the end of the lease", 2125, []history.Fault{apart, slow}, 0},
		{"too soon", 2124, []history.Fault{apart, slow}, 1},
		{"one fault", 2125, []history.Fault{apart}, 1},
		{"no fault", 2125, nil, 1},
		{"one fault, and another before", 2125, []history.Fault{apart, {Kind: history.LogDelayed, Node: "e", From: -900 * ms, Until: -501 * ms}}, 1},
		{"one fault, and another after", 2125, []history.Fault{apart, {Kind: history.LogDelayed, Node: "e", From: 2126 * ms}}, 1},
		{"one fault, and another brief one", 2125, []history.Fault{apart, {Kind: history.Paused, Node: "e", From: 700 * ms, Until: 1199 * ms}}, 1},
		{"one fault, and a node that left", 2125, []history.Fault{apart, {Kind: history.Terminated, Node: "e", From: 400 * ms}}, 0},
	} {
		const base = 1000 // offset of all these times
		for i := range c.faults {
			c.faults[i].From += base * ms
			if c.faults[i].Until != 0 {
				c.faults[i].Until += base * ms
			}
		}
		observed := fiveOwners(history.Response{
			ID: "x", Key: "key-2", Method: "POST", Status: 502, Error: "upstream-broken", Detail: mayHaveRun,
			Attempts: []history.Attempt{{Target: "c", Sent: (base + 90) * ms, Done: (base + c.end + 1) * ms}},
		}, c.faults...)
		observed.Runs = []history.Run{{ID: "x", App: "c", Node: "c", Key: "key-2", Shard: shardOf("key-2"), Epoch: 1, Method: "POST", Start: (base + 91) * ms, End: (base + c.end) * ms, Aborted: true}}
		observed.Admissions = []history.Admission{{Node: "c", Shard: 1, Epoch: 1, From: base * ms, Until: (base + 500) * ms}}
		report := history.Check(observed, history.Rules{Shards: shards})
		if len(report.Violations) != c.want || report.ExcusedFailures["aborted, the lease of its node had ended"] != 1-c.want {
			t.Errorf("%s: %v\n%v", c.name, report, report.Violations)
		}
	}
}

// A request timed out in the queue for an owner that is dead, or paused. The other nodes
// take over its shards in time, unless another one has a fault, too.
func TestUnreachableOwnerNeedsSecondFault(t *testing.T) {
	for _, kind := range []history.FaultKind{history.Killed, history.Paused} {
		for _, second := range []bool{true, false} {
			gone := history.Fault{Kind: kind, Node: "c", From: 100 * ms}
			if kind == history.Killed {
				gone.LatestExit = 110 * ms
			}
			faults := []history.Fault{gone}
			if second {
				faults = append(faults, history.Fault{Kind: history.LogDelayed, Node: "e", From: 400 * ms, Until: 9000 * ms})
			}
			report := history.Check(fiveOwners(history.Response{
				ID: "x", Key: "key-2", Method: "POST", Status: 503, Error: "peer-unreachable",
				Attempts: []history.Attempt{{Target: "a", Sent: 200 * ms, Done: 10_200 * ms}},
			}, faults...), history.Rules{Shards: shards})
			if want := 1; (len(report.Violations) == want) == second {
				t.Errorf("%v, and another %v: %v\n%v", kind, second, report, report.Violations)
			}
		}
	}
}

// An app accepted no connection in time, as far as its paused node could observe.
func TestPausedNodeExcusesConnectTimeout(t *testing.T) {
	for kind, want := range map[history.FaultKind]int{history.Paused: 0, history.LogDelayed: 1} {
		report := history.Check(fiveOwners(history.Response{
			ID: "x", Key: "key-2", Method: "POST", Status: 504, Error: "upstream-connect-timeout",
			Attempts: []history.Attempt{{Target: "c", Sent: 90 * ms, Done: 3110 * ms}},
		}, history.Fault{Kind: kind, Node: "c", From: 100 * ms, Until: 3100 * ms}), history.Rules{Shards: shards})
		if len(report.Violations) != want {
			t.Errorf("%v: %v\n%v", kind, report, report.Violations)
		}
	}
}

// A GET was broken off at its owner, and then at the next owner, or at the next process
// of the same owner. It is not sent to a third. A brief pause breaks nothing off, and
// neither does a fault that ended long before.
func TestRequestIsNotSentToThirdProcess(t *testing.T) {
	died := func(node string, at int64) history.Fault {
		return history.Fault{Kind: history.Killed, Node: node, From: at * ms, LatestExit: at * ms, Until: (at + 300) * ms}
	}
	for _, c := range []struct {
		name   string
		second history.Fault
		want   int
	}{
		{"the next one died", died("b", 2500), 0},
		{"the same one died again", died("c", 2500), 0},
		{"the next owner was paused", history.Fault{Kind: history.Paused, Node: "b", From: 1500 * ms}, 0},
		{"the next owner was paused briefly", history.Fault{Kind: history.Paused, Node: "b", From: 1500 * ms, Until: 1999 * ms}, 1},
		{"another node died", died("d", 2500), 1},
		{"it had died a moment before", died("b", -400), 0},
		{"it had died before", died("b", -1000), 1},
	} {
		observed := fiveOwners(history.Response{
			ID: "x", Key: "key-2", Method: "GET", Status: 502, Error: "peer-unreachable", Detail: mayHaveRun,
			Attempts: []history.Attempt{{Target: "a", Sent: 450 * ms, Done: 2600 * ms}},
		}, died("c", 500), c.second, history.Fault{Kind: history.LogDelayed, Node: "b", From: 2000 * ms})
		observed.Runs = []history.Run{{ID: "x", App: "b", Node: "b", Key: "key-2", Shard: shardOf("key-2"), Epoch: 2, Method: "GET", Start: 1000 * ms, End: 2500 * ms, Aborted: true}}
		report := history.Check(observed, history.Rules{Shards: shards})
		if len(report.Violations) != c.want {
			t.Errorf("%s: %v\n%v", c.name, report, report.Violations)
		}
	}
}
