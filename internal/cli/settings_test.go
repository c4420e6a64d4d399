package cli_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"shardway/admin"
	"shardway/admin/api"
	"shardway/admin/apitest"
)

// timingCluster is a cluster with changeable timing settings.
type timingCluster struct {
	cluster
	asked  []api.Timing
	counts string
}

func (r *timingCluster) Timing(context.Context) (api.TimingState, bool) {
	return api.TimingState{
		Timing:       api.Timing{Lease: "1s", DeadAfter: "5s", Takeover: "timeout", RebalanceMode: "incremental"},
		BeforeCounts: r.counts, Since: 9, Before: api.Timing{Lease: "500ms", DeadAfter: "2.5s", Takeover: "lease", RebalanceMode: "incremental"},
	}, true
}

func (r *timingCluster) ChangeTiming(ctx context.Context, change api.Timing, _ string) (api.TimingState, error) {
	r.asked = append(r.asked, change)
	t, _ := r.Timing(ctx)
	return t, nil
}

func TestTimingShowsAndChanges(t *testing.T) {
	r := &timingCluster{}
	addr := serveAny(t, admin.Options{API: apitest.SetOf(r)})
	for _, line := range []string{"settings", "settings --lease 1s --dead-after 5s --takeover timeout --rebalance-mode incremental"} {
		code, out, errOut := run(t, line+" --admin "+addr)
		if code != 0 {
			t.Fatalf("%s: exit %d: %s", line, code, errOut)
		}
		for _, want := range []string{"SETTING IN FORCE BEFORE", "lease 1s 500ms", "dead-after 5s 2.5s", "takeover timeout lease", "rebalance-mode incremental incremental", "in force since entry 9 of the log"} {
			if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
				t.Errorf("%s: no %q in\n%s", line, want, out)
			}
		}
	}
	if len(r.asked) != 1 || r.asked[0] != (api.Timing{Lease: "1s", DeadAfter: "5s", Takeover: "timeout", RebalanceMode: "incremental"}) {
		t.Errorf("asked for %+v", r.asked)
	}
	_, out, _ := run(t, "settings --json --admin "+addr)
	var got api.TimingState
	want, _ := r.Timing(t.Context())
	if err := json.Unmarshal([]byte(out), &got); err != nil || got != want {
		t.Errorf("timing --json wrote %s, %v", out, err)
	}
}

// The output contains whether the previous timing still applies: for a while after a change, the
// larger of both values is used for each node.
func TestSettingsReportWhetherPreviousTimingCounts(t *testing.T) {
	for counts, want := range map[string][2]string{
		"":   {"IN FORCE BEFORE lease", "entry 9 of the log"},
		"0s": {"IN FORCE BEFORE (over) lease", "entry 9 of the log; the previous values no longer apply"},
		"4s": {"IN FORCE BEFORE (counts) lease", "entry 9 of the log; the larger of both values applies for another 4s"},
	} {
		_, out, errOut := run(t, "settings --admin "+serveAny(t, admin.Options{API: apitest.SetOf(&timingCluster{counts: counts})}))
		out = strings.Join(strings.Fields(out), " ")
		if !strings.Contains(out, want[0]) || !strings.HasSuffix(out, want[1]) {
			t.Errorf("%q: %s %s", counts, out, errOut)
		}
	}
}
