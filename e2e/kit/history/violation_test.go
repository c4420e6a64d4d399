package history_test

import (
	"strings"
	"testing"

	"shardway/e2e/kit/history"
)

// A violated safety property must never be attributed to a busy machine.
func TestReportStatesSafetyViolation(t *testing.T) {
	for kind, want := range map[history.Kind]bool{history.TwoOwners: true, history.DoubleRun: true, history.TruncatedResponse: true, history.Failed: false, history.FalseExclusion: false} {
		r := history.Report{Violations: []history.Violation{{Kind: history.ClosedIdle}, {Kind: kind}}}
		if got := strings.Contains(r.Err().Error(), history.SafetyViolated); got != want || kind.IsSafety() != want || history.IsSafetyKind(kind.String()) != want {
			t.Errorf("%v: safety is said: %v, want %v", kind, got, want)
		}
	}
	if !history.IsSafetyKind("counter") || !history.IsSafetyKind("") || !history.IsSafetyKind("register") {
		t.Error("what has no kind here does not count as safety")
	}
}
