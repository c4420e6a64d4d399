package diagnosis_test

import (
	"slices"
	"testing"
	"time"

	"shardway/diagnosis"
)

// checkups are two of a cluster of three, two seconds apart, with a change of the second.
func checkups(change func(first, second *diagnosis.Checkup)) (first, second diagnosis.Checkup) {
	made := func(at time.Duration) diagnosis.Checkup {
		c := diagnosis.Checkup{From: "a", AskedNS: int64(at), AnsweredNS: int64(at + 10*time.Millisecond)}
		for _, id := range []string{"a", "b", "c"} {
			c.Reports = append(c.Reports, diagnosis.Report{
				Node: id, Boot: 3, Version: "1.2.0", Leader: "b", Term: 4, Epoch: 17, Timing: "lease 500ms", Flags: "lease 500ms", ClockNS: int64(time.Hour + at + 5*time.Millisecond),
			})
		}
		return c
	}
	first, second = made(0), made(2*time.Second)
	change(&first, &second)
	return first, second
}

type examined struct {
	name   string
	change func(first, second *diagnosis.Checkup)
	here   []diagnosis.UnreachablePort
	lines  []string
}

func doctorTable() []examined {
	return []examined{
		{"all is well", func(_, _ *diagnosis.Checkup) {}, nil, nil},
		{"one does not answer", func(_, s *diagnosis.Checkup) { s.Unresponsive, s.Reports = []string{"c"}, s.Reports[:2] }, nil, []string{
			"warning unresponsive: c did not respond to node a at its peer port, so there is no report of it",
		}},
		{"two leaders", func(_, s *diagnosis.Checkup) { s.Reports[2].Leader = "c" }, nil, []string{
			"warning leaders-differ: the nodes follow different leaders: a and b follow b, c follows c",
		}},
		{"a map is old", func(_, s *diagnosis.Checkup) { s.Reports[2].Epoch = 14 }, nil, []string{
			"warning maps-differ: node c uses the map of epoch 14, although epoch 17 was committed at least 2s ago",
		}},
		{"a map is new", func(_, s *diagnosis.Checkup) { s.Reports[2].Epoch = 19 }, nil, nil},
		{"a port is shut", func(_, s *diagnosis.Checkup) {
			shut := []diagnosis.UnreachablePort{{Node: "c", Port: "peer", Addr: "10.0.0.3:7947", Why: "i/o timeout"}}
			s.Reports[0].UnreachablePorts, s.Reports[1].UnreachablePorts = shut, shut
		}, []diagnosis.UnreachablePort{{Node: "c", Port: "http", Addr: "10.0.0.3:8080", Why: "connection refused"}}, []string{
			"info unreachable: the http port of node c at 10.0.0.3:8080 is not reachable from this machine: connection refused",
			"warning unreachable: the peer port of node c at 10.0.0.3:7947 is not reachable from node a and node b: i/o timeout",
		}},
		{"a clock runs", func(_, s *diagnosis.Checkup) { s.Reports[2].ClockNS += int64(200 * time.Millisecond) }, nil, []string{
			"warning clock-drift: the clock of node c runs at least 9.5 % faster than that of node a: leases tolerate a difference of 10 %",
		}},
		{"a clock crawls", func(_, s *diagnosis.Checkup) { s.Reports[1].ClockNS -= int64(200 * time.Millisecond) }, nil, []string{
			"warning clock-drift: the clock of node b runs at least 9.5 % slower than that of node a: leases tolerate a difference of 10 %",
		}},
		{"the own clock is what the others are compared with", func(_, s *diagnosis.Checkup) { s.Reports[0].ClockNS += int64(200 * time.Millisecond) }, nil, nil},
		{"a checkup took its time", func(_, s *diagnosis.Checkup) {
			s.AnsweredNS += int64(time.Second)
			s.Reports[1].ClockNS += int64(900 * time.Millisecond)
		}, nil, nil},
		{"it was not over when the next one began", func(f, s *diagnosis.Checkup) {
			f.AskedNS -= int64(time.Second)
			f.Reports[1].ClockNS -= int64(900 * time.Millisecond)
			f.AnsweredNS, s.AskedNS = int64(1100*time.Millisecond), int64(time.Second)
		}, nil, nil},
		{"the admin port is shut", func(_, s *diagnosis.Checkup) {
			s.Reports[0].UnreachablePorts = []diagnosis.UnreachablePort{{Node: "c", Port: "admin", Addr: "10.0.0.3:8081", Why: "connection refused"}}
		}, nil, []string{"info unreachable: the admin port of node c at 10.0.0.3:8081 is not reachable from node a: connection refused"}},
		{"one belongs to no cluster yet", func(_, s *diagnosis.Checkup) { s.Reports[2].Timing = "" }, nil, nil},
		{"a node was restarted", func(_, s *diagnosis.Checkup) { s.Reports[2].Boot, s.Reports[2].ClockNS = 4, 0 }, nil, nil},
		{"one is older", func(_, s *diagnosis.Checkup) { s.Reports[2].Version = "1.1.0" }, nil, []string{
			"info mixed-versions: the nodes run different versions: a and b run 1.2.0, c runs 1.1.0",
		}},
		{"settings differ", func(_, s *diagnosis.Checkup) {
			s.Reports[0].Settings, s.Reports[1].Settings, s.Reports[2].Settings = map[string]string{"key": "ip"}, map[string]string{"key": "ip"}, map[string]string{"key": "host"}
		}, nil, []string{`warning config-differs: setting key differs: a and b have "ip", c has "host"`}},
		{"flags differ", func(_, s *diagnosis.Checkup) { s.Reports[2].Flags = "lease 1s" }, nil, []string{
			"info settings-differ: node c was started with lease 1s, and the cluster uses lease 500ms",
		}},
	}
}

func TestDoctorComparesTheNodes(t *testing.T) {
	for _, tt := range doctorTable() {
		t.Run(tt.name, func(t *testing.T) {
			first, second := checkups(tt.change)
			var lines []string
			for _, f := range diagnosis.Compare(first, second, tt.here) {
				lines = append(lines, f.Severity.String()+" "+string(f.Code)+": "+f.Text)
				if f.Remedy == "" {
					t.Errorf("%s has no remedy", f.Code)
				}
			}
			if !slices.Equal(lines, tt.lines) {
				t.Errorf("found %q, want %q", lines, tt.lines)
			}
		})
	}
}

// What all nodes tell is told once, in the leader's words; what each tells of itself, of
// each.
func TestMergedReportsEachFindingOnce(t *testing.T) {
	c, _ := checkups(func(first, _ *diagnosis.Checkup) {
		for i, id := range []string{"a", "b", "c"} {
			first.Reports[i].Findings = []diagnosis.Finding{
				{Code: diagnosis.NoFaultTolerance, Severity: diagnosis.Warning, Text: "as " + id + " sees it"},
				{Code: diagnosis.NoLease, Severity: diagnosis.Warning, Text: "node " + id + " has no lease"},
			}
		}
		first.Reports[2].Findings[0].Severity = diagnosis.Outage // of another moment
	})
	var texts []string
	for _, f := range diagnosis.MergedReports(c) {
		texts = append(texts, f.Text)
	}
	if want := []string{"node b has no lease", "node a has no lease", "node c has no lease", "as b sees it"}; !slices.Equal(texts, want) {
		t.Errorf("told %q, want %q", texts, want)
	}
}
