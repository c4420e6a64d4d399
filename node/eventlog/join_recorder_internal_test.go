package eventlog

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"shardway/event"
)

// A join is reported once, when the node has a lease and a place in a map. Each step counts once, with the time since the
// previous step.
func TestJoinIsReportedOnceWithItsSteps(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name, steps, want string // steps, one every 10 ms
		isGateway, checks bool
	}{
		{name: "node", steps: "announce server log app lease server map map lease", want: "70: announce 10 server 10 log 10 lease 20 map 20"},
		{name: "node with a health check", steps: "announce server snapshot log app lease map", want: "70: announce 10 server 10 snapshot 10 log 10 app 10 lease 10 map 10", checks: true},
		{name: "map before lease", steps: "log map log lease", want: "40: log 10 map 10 lease 20"},
		{name: "no lease", steps: "announce server log map"},
		{name: "no place in a map", steps: "announce server log lease app"},
		{name: "gateway", steps: "announce server log lease", want: "30: announce 10 server 10 log 10", isGateway: true},
		{name: "gateway that lags", steps: "announce server", isGateway: true},
	} {
		ring, now := event.NewRing(event.Options{Node: "a"}), time.Hour
		join := NewJoinRecorder(JoinOptions{Self: "a", Ring: ring, IsGateway: x.isGateway, ChecksApp: x.checks, Now: func() time.Duration { return now }})
		for step := range strings.FieldsSeq(x.steps) {
			now += 10 * time.Millisecond
			join.End(step)
		}
		cursor, err := ring.Read("")
		if err != nil {
			t.Fatal(err)
		}
		events, _ := cursor.Next(9)
		var got strings.Builder
		for _, e := range events {
			fmt.Fprintf(&got, "%v:", e.Join.MS)
			for _, step := range e.Join.Steps {
				fmt.Fprintf(&got, " %s %v", step.Name, step.MS)
			}
		}
		if got.String() != x.want {
			t.Errorf("%s: %q, want %q", x.name, got.String(), x.want)
		}
	}
	var none *JoinRecorder
	none.End(event.StepLog)
}
