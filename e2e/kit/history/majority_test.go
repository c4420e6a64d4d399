package history_test

import (
	"testing"
	"time"

	"shardway/e2e/kit/history"
)

// A request times out in the queue for c, which restarts in place. Each new leader starts
// the grace period from the beginning.
func TestNewLeaderRestartsGracePeriod(t *testing.T) {
	const of = "key-2"
	killed := func(node string, from, until int64) history.Fault {
		return history.Fault{Kind: history.Killed, Node: node, From: from * ms, LatestExit: from*ms + 1, Until: until * ms}
	}
	for _, tt := range []struct {
		name  string
		grace time.Duration
		fault []history.Fault
		want  int
	}{
		{"no other fault", 4 * time.Second, nil, 1},
		{"a leader may have died", 4 * time.Second, []history.Fault{killed("b", 2600, 2700)}, 0},
		{"too long ago", 4 * time.Second, []history.Fault{killed("b", 2300, 2400)}, 1},
		{"before the restart", 4 * time.Second, []history.Fault{killed("b", -8000, -7000)}, 1},
		{"c hands over", 0, []history.Fault{killed("b", 2600, 2700)}, 1},
	} {
		observed := history.History{
			Maps:   []history.Map{{Epoch: 1, Owners: owners(map[string]string{"key-0": "a", "key-1": "b", of: "c", "key-3": "d", "key-4": "e"})}},
			Faults: append(tt.fault, history.Fault{Kind: history.Terminated, Node: "c", From: -6000 * ms, LatestExit: -5900 * ms, Grace: tt.grace, Until: 13000 * ms}),
		}
		observed.Responses = []history.Response{{
			ID: "x", Key: of, Method: "POST", Status: 503, Error: "queue-timeout",
			Attempts: []history.Attempt{{Target: "a", Sent: 0, Done: 10_001 * ms}},
		}}
		report := history.Check(observed, history.Rules{Shards: shards, Targets: map[string]string{"a": "a"}})
		if n := report.Count(history.Failed) + report.Count(history.FailedLate); n != tt.want {
			t.Errorf("%s: %v\n%v", tt.name, report, report.Violations)
		}
	}
}

// Three of seven nodes are down. If only five nodes vote, possibly no majority is left.
func TestOnlyVotersCountForMajority(t *testing.T) {
	of := map[string]string{"key-0": "a", "key-1": "b", "key-2": "c", "key-3": "d", "key-4": "e", "key-5": "f", "key-6": "g"}
	for voters, want := range map[int]int{0: 1, 5: 0, 7: 1} {
		observed := history.History{Maps: []history.Map{{Epoch: 1, Owners: owners(of)}}}
		for _, node := range []string{"e", "f", "g"} {
			observed.Faults = append(observed.Faults, history.Fault{Kind: history.Killed, Node: node, From: -100 * ms, LatestExit: -99 * ms, Until: 15000 * ms})
		}
		observed.Responses = []history.Response{{
			ID: "x", Key: "key-0", Method: "POST", Status: 503, Error: "no-leader",
			Attempts: []history.Attempt{{Target: "a", Sent: 0, Done: 10_001 * ms}},
		}}
		report := history.Check(observed, history.Rules{Shards: shards, Voters: voters, Targets: map[string]string{"a": "a"}})
		if n := report.Count(history.Failed) + report.Count(history.FailedLate); n != want {
			t.Errorf("%d vote: %v\n%v", voters, report, report.Violations)
		}
	}
}

// An ingress that was paused at the queue timeout sends the error when it continues.
func TestIngressPausedAtQueueTimeoutIsExcused(t *testing.T) {
	for _, tt := range []struct {
		name        string
		from, until int64
		want        int
	}{
		{"the ingress node continues", 5500, 12600, 0},
		{"the ingress node continued long before", 5500, 9000, 1},
		{"the ingress node is paused later", 10_100, 12600, 1},
	} {
		observed := history.History{
			Maps: []history.Map{{Epoch: 1, Owners: owners(map[string]string{"key-0": "a", "key-1": "b", "key-2": "c"})}},
			Faults: []history.Fault{
				{Kind: history.Paused, Node: "b", From: tt.from * ms, Until: tt.until * ms},
			},
			Responses: []history.Response{{
				ID: "x", Key: "key-0", Method: "POST", Status: 503, Error: "peer-unreachable",
				Attempts: []history.Attempt{{Target: "b", Sent: 0, Done: 12_620 * ms}},
			}},
		}
		report := history.Check(observed, history.Rules{Shards: shards, Targets: map[string]string{"b": "b"}})
		if n := report.Count(history.Failed) + report.Count(history.FailedLate); n != tt.want {
			t.Errorf("%s: %v\n%v", tt.name, report, report.Violations)
		}
	}
}

// A node that was paused twice without a break aborts a request although its app
// responded during the pauses: it could not read the response first.
func TestAdjacentPausesCountAsOne(t *testing.T) {
	for again, want := range map[int64]int{3955: 0, 3956: 1} {
		observed := history.History{
			Maps: []history.Map{{Epoch: 1, Owners: owners(map[string]string{"key-0": "a", "key-1": "b", "key-2": "c"})}},
			Runs: []history.Run{{ID: "x", App: "c", Shard: shardOf("key-2"), Epoch: 1, Method: "GET", Start: 10 * ms, End: 3854 * ms}},
			Faults: []history.Fault{
				{Kind: history.Paused, Node: "c", From: 3770 * ms, Until: 3955 * ms},
				{Kind: history.Paused, Node: "c", From: again * ms, Until: 4155 * ms},
			},
			Responses: []history.Response{{
				ID: "x", Key: "key-2", Method: "GET", Status: 502, Error: "shard-moved", Detail: mayHaveRun,
				Attempts: []history.Attempt{{Target: "a", Sent: 5 * ms, Done: 4155 * ms}},
			}},
		}
		report := history.Check(observed, history.Rules{Shards: shards, DrainTimeout: time.Second, MaxAbortNotice: 100 * time.Millisecond, Targets: map[string]string{"a": "a"}})
		if n := report.Count(history.Failed) + report.Count(history.FailedLate); n != want {
			t.Errorf("again at %d ms: %v\n%v", again, report, report.Violations)
		}
	}
}

// Two of four nodes are down, and a fifth joins. It once counted as a voter from the
// beginning, so the two others counted as a majority of the voters, and a queued request
// had no excuse.
func TestNodeWithoutVoteDoesNotCountForMajority(t *testing.T) {
	of := map[string]string{"key-0": "a", "key-1": "b", "key-2": "c", "key-3": "d"}
	for _, tt := range []struct {
		name  string
		votes int64 // when it gets its vote; 0 means that it has always voted
		want  int
	}{
		{"the node always voted", 0, 1},
		{"the node votes later", 20_000, 0},
		{"the node votes after half of the wait", 5100, 0},
		{"the node votes before half of the wait", 4900, 1},
	} {
		observed := history.History{Maps: []history.Map{{Epoch: 1, Owners: owners(of)}, {Epoch: 2, At: 25_000 * ms, Owners: owners(of)}}}
		observed.Maps[1].Owners[0] = "e"
		if tt.votes > 0 {
			observed.VoterSince = map[string]int64{"e": tt.votes * ms}
		}
		for _, node := range []string{"c", "d"} {
			observed.Faults = append(observed.Faults, history.Fault{Kind: history.Killed, Node: node, From: -100 * ms, LatestExit: -99 * ms, Until: 15000 * ms})
		}
		observed.Responses = []history.Response{{
			ID: "x", Key: "key-0", Method: "POST", Status: 503, Error: "no-leader",
			Attempts: []history.Attempt{{Target: "a", Sent: 0, Done: 10_001 * ms}},
		}}
		report := history.Check(observed, history.Rules{Shards: shards, Voters: 5, Targets: map[string]string{"a": "a"}})
		if n := report.Count(history.Failed) + report.Count(history.FailedLate); n != tt.want {
			t.Errorf("%s: %v\n%v", tt.name, report, report.Violations)
		}
	}
}

// Two of four nodes are down twice during a wait, 4 s each time. The majority in between
// elects no leader that serves before Settle is over.
func TestBriefMajorityDoesNotEndTheExcuse(t *testing.T) {
	of := map[string]string{"key-0": "a", "key-1": "b", "key-2": "c", "key-3": "d"}
	for _, tt := range []struct {
		name       string
		back, gone int64 // of c, which is down from 0 on
		until      int64
		want       int
	}{
		{"brief majority", 4000, 4990, 9000, 0},
		{"long majority", 4000, 5000, 9000, 1},
		{"brief majority, and short loss", 2000, 2900, 4000, 1},
	} {
		observed := history.History{
			Maps: []history.Map{{Epoch: 1, Owners: owners(of)}},
			Faults: []history.Fault{
				{Kind: history.Killed, Node: "d", From: -100 * ms, LatestExit: -99 * ms, Until: 15_000 * ms},
				{Kind: history.Killed, Node: "c", From: -100 * ms, LatestExit: -99 * ms, Until: tt.back * ms},
				{Kind: history.Killed, Node: "c", From: tt.gone * ms, LatestExit: tt.gone*ms + 1, Until: tt.until * ms},
			},
			Responses: []history.Response{{
				ID: "x", Key: "key-0", Method: "POST", Status: 503, Error: "no-leader",
				Attempts: []history.Attempt{{Target: "a", Sent: 0, Done: 10_001 * ms}},
			}},
		}
		report := history.Check(observed, history.Rules{Shards: shards, Targets: map[string]string{"a": "a"}})
		if n := report.Count(history.Failed) + report.Count(history.FailedLate); n != tt.want {
			t.Errorf("%s: %v\n%v", tt.name, report, report.Violations)
		}
	}
}
