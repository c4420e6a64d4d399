package cli_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"shardway/diagnosis"
)

// ailing is a cluster whose nodes report the same state, except for the changes of the test.
type ailing struct {
	*cluster
	change func(*diagnosis.Checkup)
}

func (a ailing) Checkup(_ context.Context, reach bool) diagnosis.Checkup {
	c := diagnosis.Checkup{From: "a", Reports: []diagnosis.Report{{Node: "a", Version: "1", Leader: "b", Epoch: 12}, {Node: "b", Version: "1", Leader: "b", Epoch: 12}}}
	if reach {
		c.Reports[0].UnreachablePorts = []diagnosis.UnreachablePort{{Node: "b", Port: "peer", Addr: "10.0.0.2:7947", Why: "connection refused"}}
	}
	a.change(&c)
	return c
}

func TestDoctorAsksAllAndExitsByTheWorst(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*diagnosis.Checkup)
		code   int
		want   string
	}{
		"warnings": {func(*diagnosis.Checkup) {}, 0, "WARNING unreachable: the peer port of node b at 10.0.0.2:7947 is not reachable from node a: connection refused; open the port"},
		"outage": {func(c *diagnosis.Checkup) {
			c.Reports[1].Findings = []diagnosis.Finding{{Code: diagnosis.NoQuorum, Severity: diagnosis.Outage, Text: "nobody leads", Remedy: "start c"}}
		}, 3, "OUTAGE no-quorum: nobody leads; start c"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, errOut := run(t, "doctor --admin "+serveCluster(t, ailing{&cluster{}, tt.change}))
			if code != tt.code || errOut != "" || !strings.Contains(out, tt.want+"\n") && !strings.Contains(out, tt.want+",") || !strings.Contains(out, "NODE  VERSION") {
				t.Errorf("exit %d, want %d: %s\n%s\nwant a line %q", code, tt.code, errOut, out, tt.want)
			}
		})
	}
	t.Run("json", func(t *testing.T) {
		t.Parallel()
		code, out, _ := run(t, "doctor --json --admin "+serveCluster(t, ailing{&cluster{}, func(*diagnosis.Checkup) {}}))
		var d struct {
			From     string
			Reports  []diagnosis.Report
			Findings []diagnosis.Finding
		}
		if err := json.Unmarshal([]byte(out), &d); err != nil || code != 0 || d.From != "a" || len(d.Reports) != 2 || len(d.Findings) == 0 {
			t.Errorf("exit %d, %v, %s", code, err, out)
		}
	})
	if code, _, errOut := run(t, "doctor --admin 127.0.0.1:1"); code != 1 || !strings.Contains(errOut, "nothing listens") {
		t.Errorf("without a node: exit %d, %s", code, errOut)
	}
}
