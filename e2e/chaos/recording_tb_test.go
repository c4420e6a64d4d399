//go:build linux

package chaos

import (
	"slices"
	"strings"
	"testing"

	"shardway/e2e/kit/history"
)

// The test fails in every way, in the run and in a cleanup. All failures are recorded,
// nothing runs after a fatal failure, and every cleanup runs.
func TestRecordingTBKeepsFailuresFromTheTest(t *testing.T) {
	b := &recordingTB{TB: t, quiet: true}
	var done []string
	b.runWithCleanups(func() {
		b.Cleanup(func() { done = append(done, "first") })
		b.Cleanup(func() {
			b.Fatal("in a cleanup")
			done = append(done, "beyond")
		})
		b.Errorf("number %d", 1)
		if !b.Failed() {
			t.Error("Failed returns false after a failure")
		}
		b.Fatalf("number %d", 2)
		done = append(done, "beyond")
	})
	if want := []string{"number 1", "number 2", "in a cleanup"}; !slices.Equal(b.failures, want) {
		t.Errorf("failures = %q, want %q", b.failures, want)
	}
	if want := []string{"first"}; !slices.Equal(done, want) {
		t.Errorf("done = %q, want %q", done, want)
	}
	if t.Failed() {
		t.Error("the test failed with the run")
	}
}

// The error contains the seed, the schedule, the round and the trace.
func TestReportErrorContainsScheduleAndTrace(t *testing.T) {
	report := &Report{Options: Options{Seed: 4711, Nodes: 3}, Trace: "what happened", Skipped: map[string]string{"loss of 50 %": "no nft"}}
	good := &Round{Number: 0, Faults: "partition", History: &history.Report{Requests: 10, ExcusedFailures: map[string]int{"truncated, paused": 2}}}
	bad := &Round{Number: 1, Faults: "bridge", History: &history.Report{}}
	bad.addViolation("two owners", "shard 7")
	for _, round := range []*Round{good, bad} {
		report.Rounds = append(report.Rounds, round)
		report.addViolations(round)
	}
	if report.Count("two owners") != 1 || report.Violations[0].Round != 1 || report.Violations[0].Faults != "bridge" {
		t.Errorf("violations = %+v", report.Violations)
	}
	for _, want := range []string{"4711", "round 1 (bridge): two owners: shard 7", "0  partition", "1  bridge", "what happened"} {
		if !strings.Contains(report.Err().Error(), want) {
			t.Errorf("the error lacks %q:\n%v", want, report.Err())
		}
	}
	for _, want := range []string{"skipped: no nft", "2 truncated, paused", "1 violations"} {
		if !strings.Contains(report.String(), want) {
			t.Errorf("the table lacks %q:\n%v", want, report)
		}
	}
	report.Violations = nil
	if err := report.Err(); err != nil {
		t.Errorf("Err() = %v without violations", err)
	}
}
