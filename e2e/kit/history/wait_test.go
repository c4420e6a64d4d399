package history_test

import (
	"strconv"
	"testing"

	"shardway/e2e/kit/history"
)

// On a starved machine each node waited for a processor thousands of times. The check
// once took time proportional to the fourth power of that number, and did not end.
func TestCheckIsFastWithManyWaits(t *testing.T) {
	observed := fiveOwners(history.Response{})
	observed.Responses = nil
	const length = 30_000
	for at := range int64(length / 100) {
		for _, node := range []string{"a", "b", "c", "d", "e"} {
			observed.Faults = append(observed.Faults, history.Fault{Kind: history.Stalled, Node: node, From: at * 100 * ms, Until: (at*100 + 60) * ms})
		}
	}
	for i := range 100 {
		sent := int64(i) * 150 * ms
		observed.Responses = append(observed.Responses, history.Response{
			ID: strconv.Itoa(i), Key: "key-2", Method: "POST", Status: 503, Error: "queue-timeout",
			Attempts: []history.Attempt{{Target: "a", Sent: sent, Done: sent + 10_001*ms}},
		})
	}
	if report := history.Check(observed, history.Rules{Shards: shards}); len(report.Violations) > 0 {
		t.Errorf("%v\n%v", report, report.Violations[0])
	}
}
