//go:build linux

package history_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"shardway/e2e/kit/history"
)

const ms = int64(time.Millisecond)

const shards = 64

// historyBuilder is a history under construction. Its methods take times and durations in milliseconds.
type historyBuilder struct {
	history.History
	now int64
}

func shardOf(key string) uint32 { return uint32(xxhash.Sum64String(key) % shards) }

func key(n int) string { return fmt.Sprintf("key-%d", n) }

// addRequest adds a request and its response. The node runs the request from now on, for duration.
func (s *historyBuilder) addRequest(id, method, key, node string, epoch uint64, duration int64) {
	s.addRun(id, method, key, node, epoch, duration)
	s.Responses = append(s.Responses, history.Response{
		ID: id, Key: key, Method: method, Status: 200, App: node, EchoID: id,
		Attempts: []history.Attempt{{Target: "x", Sent: (s.now - 1) * ms, Done: (s.now + duration + 1) * ms}},
	})
}

// addRun adds a run without a response.
func (s *historyBuilder) addRun(id, method, key, node string, epoch uint64, duration int64) {
	s.Runs = append(s.Runs, history.Run{
		Seq: uint64(len(s.Runs)), App: node, Node: node, ID: id, Method: method, Key: key,
		Shard: shardOf(key), Epoch: epoch, Start: s.now * ms, End: (s.now + duration) * ms,
	})
}

// validHistory returns a valid history with two nodes, and a handover of every key from a to b at
// 1000.
func validHistory() *historyBuilder {
	builder := &historyBuilder{}
	for i := range 40 {
		node, epoch := "a", uint64(5)
		if i >= 20 {
			node, epoch = "b", 9
		}
		builder.now = int64(100 + 50*i)
		builder.addRequest(fmt.Sprintf("g%d", i), "GET", key(i%4), node, epoch, 30)
		builder.addRequest(fmt.Sprintf("p%d", i), "POST", key(i%4), node, epoch, 30)
	}
	builder.now = 3000
	return builder
}

func TestGoodHistoryPasses(t *testing.T) {
	report := history.Check(validHistory().History, history.Rules{Shards: shards})
	if err := report.Err(); err != nil {
		t.Fatal(err)
	}
	if report.Requests != 80 || report.Answered != 80 || report.Runs != 80 || report.Shards != 4 || report.Handovers != 4 || report.LateAbortOverlaps != 0 {
		t.Errorf("report = %+v", report)
	}
}

// TestCheckDetectsEachInsertedError plants one error at a time into a valid history. Check
// must find it, and nothing else.
func TestCheckDetectsEachInsertedError(t *testing.T) {
	for _, c := range []struct {
		name  string
		want  history.Kind
		plant func(builder *historyBuilder)
	}{
		{"two owners", history.TwoOwners, func(builder *historyBuilder) {
			builder.addRequest("x", "GET", key(1), "b", 10, 100)
			builder.now += 99
			builder.addRequest("y", "GET", key(1), "a", 11, 5)
		}},
		{"two owners, the first never ends", history.TwoOwners, func(builder *historyBuilder) {
			builder.addRequest("x", "GET", key(1), "b", 10, 0)
			builder.Runs[len(builder.Runs)-1].End = 0
			builder.now += 60_000
			builder.addRequest("y", "GET", key(1), "a", 11, 5)
		}},
		{"two owners behind a shorter run", history.TwoOwners, func(builder *historyBuilder) {
			builder.addRequest("x", "GET", key(1), "b", 10, 100)
			builder.now += 10
			builder.addRequest("y", "GET", key(1), "b", 10, 5)
			builder.now += 20
			builder.addRequest("z", "GET", key(1), "a", 11, 5)
		}},
		{"two owners after a pause of another node", history.TwoOwners, func(builder *historyBuilder) {
			builder.addRequest("x", "GET", key(1), "b", 10, 100)
			builder.now += 50
			builder.addRequest("y", "GET", key(1), "a", 11, 5)
			builder.Faults = append(builder.Faults, history.Fault{Kind: history.Paused, Node: "a", From: 3000 * ms, Until: 3100 * ms})
		}},
		{"two owners, the first started after its pause", history.TwoOwners, func(builder *historyBuilder) {
			builder.Faults = append(builder.Faults, history.Fault{Kind: history.Paused, Node: "b", From: 2900 * ms, Until: 2999 * ms})
			builder.addRequest("x", "GET", key(1), "b", 10, 100)
			builder.now += 50
			builder.addRequest("y", "GET", key(1), "a", 11, 5)
		}},
		{"two owners long after an abort", history.TwoOwners, func(builder *historyBuilder) {
			builder.addRequest("x", "GET", key(1), "b", 10, 2000)
			builder.Runs[len(builder.Runs)-1].Aborted = true
			builder.now += 500
			builder.addRequest("y", "GET", key(1), "a", 11, 5)
		}},
		{"same epoch twice", history.SharedEpoch, func(builder *historyBuilder) {
			builder.addRequest("x", "GET", key(1), "c", 9, 5)
		}},
		{"stale epoch at the node itself", history.StaleEpoch, func(builder *historyBuilder) {
			builder.addRequest("x", "GET", key(1), "b", 8, 5)
		}},
		{"stale epoch of an old owner", history.StaleEpoch, func(builder *historyBuilder) {
			builder.addRequest("x", "GET", key(1), "a", 5, 5)
		}},
		{"double run at one node", history.DoubleRun, func(builder *historyBuilder) {
			builder.addRequest("x", "POST", key(1), "b", 9, 5)
			builder.now += 10
			builder.addRun("x", "POST", key(1), "b", 9, 5)
		}},
		{"double run at two nodes", history.DoubleRun, func(builder *historyBuilder) {
			builder.addRequest("x", "PUT", key(1), "b", 9, 5)
			builder.now += 10
			builder.addRun("x", "PUT", key(1), "a", 10, 5)
		}},
		{"missing response", history.Lost, func(builder *historyBuilder) {
			builder.addRequest("x", "GET", key(1), "b", 9, 5)
			builder.Responses[len(builder.Responses)-1].Status = 0
		}},
		{"response without a run", history.NoRun, func(builder *historyBuilder) {
			builder.addRequest("x", "GET", key(1), "b", 9, 5)
			builder.Runs = builder.Runs[:len(builder.Runs)-1]
		}},
		{"response of the proxy's own without a run", history.NoRun, func(builder *historyBuilder) {
			builder.addRequest("x", "GET", key(1), "b", 9, 5)
			builder.Runs = builder.Runs[:len(builder.Runs)-1]
			builder.Responses[len(builder.Responses)-1].App, builder.Responses[len(builder.Responses)-1].EchoID = "", ""
		}},
		{"response of another app", history.WrongResponse, func(builder *historyBuilder) {
			builder.addRequest("x", "GET", key(1), "b", 9, 5)
			builder.Responses[len(builder.Responses)-1].App = "a"
		}},
		{"swapped response", history.WrongResponse, func(builder *historyBuilder) {
			builder.addRequest("x", "GET", key(1), "b", 9, 5)
			builder.Responses[len(builder.Responses)-1].EchoID = "g3"
		}},
		{"second response on the connection", history.SecondResponse, func(builder *historyBuilder) {
			builder.addRequest("x", "GET", key(1), "b", 9, 5)
			builder.Responses[len(builder.Responses)-1].Extra = 12
		}},
		{"second response under the id", history.SecondResponse, func(builder *historyBuilder) {
			builder.addRequest("x", "GET", key(1), "b", 9, 5)
			builder.Responses = append(builder.Responses, builder.Responses[len(builder.Responses)-1])
		}},
		{"truncated response", history.TruncatedResponse, func(builder *historyBuilder) {
			builder.addRequest("x", "GET", key(1), "b", 9, 5)
			builder.Responses[len(builder.Responses)-1].Truncated = true
		}},
		{"error response", history.Failed, func(builder *historyBuilder) {
			builder.addRequest("x", "GET", key(1), "b", 9, 5)
			builder.Responses[len(builder.Responses)-1].Status = 503
		}},
		{"smuggled request", history.UnknownRun, func(builder *historyBuilder) {
			builder.addRun("evil", "GET", key(1), "b", 9, 5)
		}},
		{"wrong shard", history.BadHeader, func(builder *historyBuilder) {
			builder.addRequest("x", "GET", key(1), "b", 9, 5)
			builder.Runs[len(builder.Runs)-1].Shard = (builder.Runs[len(builder.Runs)-1].Shard + 1) % shards
			builder.Runs[len(builder.Runs)-1].Epoch = 1000
		}},
		{"wrong node", history.BadHeader, func(builder *historyBuilder) {
			builder.addRequest("x", "GET", key(1), "b", 9, 5)
			builder.Runs[len(builder.Runs)-1].Node = "a"
		}},
		{"no epoch", history.BadHeader, func(builder *historyBuilder) {
			builder.addRequest("x", "GET", "a key of its own", "b", 0, 5)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			builder := validHistory()
			c.plant(builder)
			report := history.Check(builder.History, history.Rules{Shards: shards})
			if report.Count(c.want) == 0 || report.Count(c.want) != len(report.Violations) {
				t.Errorf("violations = %v, want only %q", report.Violations, c.want)
			}
			if err := report.Err(); err == nil || !strings.Contains(err.Error(), c.want.String()) {
				t.Errorf("Err() = %v, want it to name %q", err, c.want)
			}
		})
	}
}

// The history has the two overlaps against which only the epoch protects, and one
// response that a drain aborted. They are no violations, and all are counted.
func TestCheckCountsOverlapsOutsideTheGuarantee(t *testing.T) {
	builder := validHistory()
	builder.addRequest("x", "GET", key(1), "b", 10, 5000) // b is paused while its app continues
	builder.Faults = append(builder.Faults, history.Fault{Kind: history.Paused, Node: "b", From: builder.now*ms + 1, Until: (builder.now + 9000) * ms})
	builder.now += 3000
	builder.addRequest("y", "GET", key(1), "a", 11, 5)
	builder.now += 10_000
	builder.addRequest("cut", "POST", key(1), "a", 11, 5100)
	builder.Runs[len(builder.Runs)-1].Aborted = true
	builder.Responses[len(builder.Responses)-1].Status = 502
	builder.Responses[len(builder.Responses)-1].Error = "shard-moved"
	builder.now += 5090
	builder.addRequest("z", "GET", key(1), "b", 12, 5)
	report := history.Check(builder.History, history.Rules{Shards: shards})
	if err := report.Err(); err != nil {
		t.Fatal(err)
	}
	if report.PauseOverlaps != 1 || report.LateAbortOverlaps != 1 || report.ExcusedFailures["aborted after the drain timeout"] != 1 {
		t.Errorf("report = %v, want one overlap at a stop, one with a run that was cut, and that cut", report)
	}
}

// Only unsafe requests must not run twice.
func TestSafeRequestsMayRunTwice(t *testing.T) {
	builder := validHistory()
	builder.addRequest("x", "GET", key(1), "b", 9, 5)
	builder.now += 10
	builder.addRun("x", "GET", key(1), "b", 9, 5)
	if err := history.Check(builder.History, history.Rules{}).Err(); err != nil {
		t.Fatal(err)
	}
}

// A run needs no response in the history if Rules.OtherRequests contains its request.
func TestKnownRequestsMayRun(t *testing.T) {
	builder := validHistory()
	builder.addRun("before", "GET", key(1), "b", 9, 5)
	report := history.Check(builder.History, history.Rules{OtherRequests: map[string]bool{"before": false}})
	if err := report.Err(); err != nil {
		t.Fatal(err)
	}
}

// A POST whose response was checked before may run again later, at a node that was paused
// in the meantime.
func TestKnownUnsafeRequestRunsOnce(t *testing.T) {
	builder := validHistory()
	for range 2 {
		builder.now += 10
		builder.addRun("before", "POST", key(1), "b", 9, 5)
	}
	if report := history.Check(builder.History, history.Rules{OtherRequests: map[string]bool{"before": false}}); report.Count(history.DoubleRun) != 1 {
		t.Errorf("%v", report)
	}
}

func TestReadRunsMergesStartAndEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs")
	lines := `{"seq":1,"app":"a","id":"x","start":5}
{"seq":2,"app":"a","id":"y","start":6}
{"seq":1,"app":"a","id":"x","start":5,"end":9}
{"seq":1,"app":"b","id":"z","start":7,"end":8}
{"seq":3,"app":"a","id":"cut sh`
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	runs, err := history.ReadRuns(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(runs) != 3 || runs[0].End != 9 || runs[1].End != 0 || runs[2].App != "b" {
		t.Errorf("runs = %+v", runs)
	}
	if _, err := history.ReadRuns(path + ".none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("ReadRuns of no file = %v", err)
	}
}

func TestClockOnlyGrows(t *testing.T) {
	for last := history.Now(); ; {
		now := history.Now()
		if now < last {
			t.Fatalf("Now() = %d after %d", now, last)
		}
		if now > last {
			return
		}
	}
}
