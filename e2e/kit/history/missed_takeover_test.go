package history_test

import (
	"testing"

	"shardway/e2e/kit/history"
)

// A request at b times out in the queue for the dead owner c, although d owns the shard
// since 8000. b cannot know that if its log is delayed.
func TestDelayedLogExcusesWaitForDeadOwner(t *testing.T) {
	const of = "key-2"
	fault := func(k history.FaultKind, node string, from, until int64) []history.Fault {
		return []history.Fault{{Kind: k, Node: node, From: from * ms, Until: until * ms}}
	}
	dead := history.Fault{Kind: history.Killed, Node: "c", From: -5000 * ms, LatestExit: -4999 * ms, Until: 20_000 * ms}
	for _, tt := range []struct {
		name  string
		owner history.Fault
		fault []history.Fault
		moved int64 // when d gets the shard; 0 means that it does not move
		done  int64
		want  int
	}{
		{"its disk stalled", dead, fault(history.DiskFault, "b", 3000, 10_050), 8000, 10_001, 0},
		{"its log was delayed", dead, fault(history.LogDelayed, "b", 3000, 10_050), 8000, 10_001, 0},
		{"its log was complete", dead, nil, 8000, 10_001, 1},
		{"its log contained the takeover", dead, fault(history.DiskFault, "b", 8001, 10_050), 8000, 10_001, 1},
		{"its disk worked in time", dead, fault(history.DiskFault, "b", 3000, 9900), 8000, 10_001, 1},
		{"the disk of another node stalled", dead, fault(history.DiskFault, "a", 3000, 10_050), 8000, 10_001, 1},
		{"its app was down", dead, fault(history.AppDown, "b", 3000, 10_050), 8000, 10_001, 1},
		{"it did not wait", dead, fault(history.DiskFault, "b", 3000, 10_050), 8000, 9900, 1},
		{"the owner was alive", history.Fault{}, fault(history.DiskFault, "b", 3000, 10_050), 8000, 10_001, 1},
		{"the owner was back", history.Fault{Kind: history.Killed, Node: "c", From: -5000 * ms, LatestExit: -4999 * ms, Until: 7900 * ms}, fault(history.DiskFault, "b", 3000, 10_050), 8000, 10_001, 1},
		{"the owner was paused", history.Fault{Kind: history.Paused, Node: "c", From: -5000 * ms, Until: 20_000 * ms}, fault(history.DiskFault, "b", 3000, 10_050), 8000, 10_001, 0},
		{"the owner has left", history.Fault{Kind: history.Terminated, Node: "c", From: 8100 * ms, LatestExit: 8200 * ms, Until: 20_000 * ms}, fault(history.LogDelayed, "b", 3000, 10_050), 8000, 10_001, 0},
		{"the owner left, and is back", history.Fault{Kind: history.Terminated, Node: "c", From: 8100 * ms, LatestExit: 8200 * ms, Until: 9900 * ms}, fault(history.LogDelayed, "b", 3000, 10_050), 8000, 10_001, 1},
		{"the owner has left, and it could have heard", history.Fault{Kind: history.Terminated, Node: "c", From: 8100 * ms, LatestExit: 8200 * ms, Until: 20_000 * ms}, fault(history.LogDelayed, "b", 8001, 10_050), 8000, 10_001, 1},
		{"its shard stayed", history.Fault{}, fault(history.DiskFault, "b", 3000, 10_050), 0, 10_001, 1},
	} {
		was := map[string]string{"key-0": "a", "key-1": "b", of: "c", "key-3": "d", "key-4": "e"}
		observed := history.History{Maps: []history.Map{{Epoch: 1, Owners: owners(was)}}, Faults: tt.fault}
		if tt.owner.Node != "" {
			observed.Faults = append(observed.Faults, tt.owner)
		}
		if tt.moved > 0 {
			was[of] = "d"
			observed.Maps = append(observed.Maps, history.Map{Epoch: 2, At: tt.moved * ms, Owners: owners(was)})
			at := tt.moved*ms + ms
			observed.Runs = []history.Run{{App: "d", Node: "d", Shard: shardOf(of), Epoch: 2, Key: of, ID: "y", Method: "POST", Seq: 1, Start: at, End: at + ms}}
			observed.Responses = []history.Response{{
				ID: "y", Key: of, Method: "POST", Status: 200, App: "d", EchoID: "y", Count: 1,
				Attempts: []history.Attempt{{Target: "a", Sent: at, Done: at + 2*ms}},
			}}
		}
		observed.Responses = append(observed.Responses, history.Response{
			ID: "x", Key: of, Method: "POST", Status: 503, Error: "peer-unreachable",
			Attempts: []history.Attempt{{Target: "b", Sent: 0, Done: tt.done * ms}},
		})
		report := history.Check(observed, history.Rules{Shards: shards, Targets: map[string]string{"a": "a", "b": "b"}})
		if n := report.Count(history.Failed) + report.Count(history.FailedLate); n != tt.want {
			t.Errorf("%s: %v\n%v", tt.name, report, report.Violations)
		}
	}
}
