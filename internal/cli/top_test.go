package cli_test

import (
	"strings"
	"testing"

	"shardway/admin/api"
	"shardway/diagnosis"
)

func TestTopShowsOneLookWithoutATerminal(t *testing.T) {
	addr := serve(t, &cluster{})
	for _, line := range []string{"top --admin=" + addr, "top --once --interval=1h --admin=" + addr} {
		code, out, errOut := run(t, line)
		if code != 0 || strings.Contains(out, "\x1b") {
			t.Fatalf("%s: exit %d, %s, %q", line, code, errOut, out)
		}
		var lines []string
		for _, r := range rows(out) {
			lines = append(lines, strings.Join(r, " "))
		}
		got := strings.Join(lines, "\n")
		for _, want := range []string{
			"WARNING even-voters: two voters (a and b?): the loss of either stops the cluster; add a node\n\na sees operational, leader b (term 7), map 12\n4 shards, 0 moving, 0 orphaned; queued here: 1 request\n",
			"NODE STATE ROLE SHARDS APP REQUESTS/S BUSY KB/S WEBSOCKETS\na active follower 2 healthy 12.5 0.50 2.0 3\nb?[2J active leader 2 healthy 0.0 0.00 0.0 0\n",
			"SHARD NODE REQUESTS/S BUSY KB/S WEBSOCKETS\n1 a 12.5 0.50 2.0 3\n2 b/2 1.0 0.00 0.0 0",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("%s lacks\n%s\nin\n%s", line, want, got)
			}
		}
	}
	down := serveCluster(t, comes(api.Status{Findings: []diagnosis.Finding{{Code: diagnosis.NoQuorum, Severity: diagnosis.Outage, Text: "1 of 3 voters is here", Remedy: "start b"}}}))
	for _, line := range []string{"top --admin=" + down, "top --once --json --admin=" + down} {
		if code, out, errOut := run(t, line); code != 3 || !strings.Contains(out, "1 of 3 voters is here") {
			t.Errorf("%s in an outage: exit %d, %s\n%s", line, code, errOut, out)
		}
	}
	if code, _, errOut := run(t, "top --interval=0s"); code != 2 || !strings.Contains(errOut, "--interval 0s") {
		t.Errorf("no time between two looks: exit %d, %s", code, errOut)
	}
}
