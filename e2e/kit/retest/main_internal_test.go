package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"shardway/e2e/kit/history"
)

// stub is a gotestsum that reads its results from files: the n-th call copies the n-th
// file to the file after --jsonfile, records its arguments, and exits as the file says.
const stub = `#!/bin/sh
n=$(cat n 2>/dev/null || echo 0); n=$((n + 1)); echo "$n" > n
echo "$@" >> calls
while [ "$1" != --jsonfile ]; do shift; done
cp "$n.json" "$2"
grep -q '"Action":"fail"' "$n.json" && exit 1
exit 0
`

const (
	green = `{"Time":"2026-01-01T00:00:01Z","Action":"run","Package":"shardway/e2e","Test":"TestA"}
{"Time":"2026-01-01T00:00:02Z","Action":"pass","Package":"shardway/e2e","Test":"TestA"}
`
	red = `{"Time":"2026-01-01T00:00:01Z","Action":"run","Package":"shardway/e2e","Test":"TestA"}
{"Time":"2026-01-01T00:00:01Z","Action":"run","Package":"shardway/e2e","Test":"TestA/b"}
{"Time":"2026-01-01T00:00:02Z","Action":"fail","Package":"shardway/e2e","Test":"TestA/b"}
{"Time":"2026-01-01T00:00:02Z","Action":"fail","Package":"shardway/e2e","Test":"TestA"}
{"Time":"2026-01-01T00:00:02Z","Action":"fail","Package":"shardway/e2e"}
`
	gaveUp = `{"Time":"2026-01-01T00:00:01Z","Action":"run","Package":"shardway/e2e","Test":"TestA"}
{"Time":"2026-01-01T00:00:02Z","Action":"output","Package":"shardway/e2e","Test":"TestA","Output":"ThreadSanitizer: CHECK failed: tsan_rtl.cpp:346 \"((exiting)) != (0)\" (tid=1)\n"}
{"Time":"2026-01-01T00:00:02Z","Action":"fail","Package":"shardway/e2e"}
`
	broken = `{"Time":"2026-01-01T00:00:02Z","Action":"fail","Package":"shardway/e2e"}
`
)

// failedWithOutput is a failed test that printed this.
func failedWithOutput(test, output string) string { return printed(test, output) + red }

func race(test string) string { return printed(test, "WARNING: DATA RACE") }

func printed(test, output string) string {
	return `{"Time":"2026-01-01T00:00:01Z","Action":"output","Package":"shardway/e2e","Test":"` + test + `","Output":"` + output + `\n"}` + "\n"
}

// unavailableDuring is an absence during the first n runs.
func unavailableDuring(n int) func(from, until time.Time) Unavailability {
	asked := 0
	return func(_, _ time.Time) Unavailability {
		if asked++; asked > 2*n { // one call to decide about a repeat, one to print the reason
			return Unavailability{}
		}
		return Unavailability{TimerDelay: time.Second}
	}
}

func TestOnlyFailuresDuringUnavailabilityAreRepeated(t *testing.T) {
	for _, tt := range []struct {
		name   string
		runs   []string
		away   int
		status int
		calls  int
		said   string
	}{
		{"green", []string{green}, 1, 0, 1, ""},
		{"red on an available machine", []string{red, green}, 0, 1, 1, "the machine was available"},
		{"red on an unavailable machine", []string{red, green}, 1, 0, 2, "repeated (1): shardway/e2e.TestA"},
		{"red again on an available machine", []string{red, red, green}, 1, 1, 2, "the machine was available"},
		{"red again on an unavailable machine", []string{red, red, green}, 9, 0, 3, "repeated (2): shardway/e2e.TestA"},
		{"red three times", []string{red, red, red, green}, 9, 1, 3, "repeated (2)"},
		{"a broken promise", []string{failedWithOutput("TestA/b", "x_test.go:1: history: 3 violations (900 requests): "+history.SafetyViolated), green}, 9, 1, 1, history.SafetyViolated},
		{"late answers", []string{failedWithOutput("TestA", "history: 1 violations (900 requests)"), green}, 1, 0, 2, "repeated (1)"},
		{"a race", []string{race("TestA") + red, green}, 9, 1, 1, "a data race"},
		{"a race outside of tests", []string{race("") + red, green}, 9, 1, 1, "a data race"},
		{"a panic", []string{failedWithOutput("TestA", "panic: boom"), green}, 9, 1, 1, "a panic"},
		{"a broken promise when repeated", []string{red, failedWithOutput("TestA", "history: 1 violations (1 requests): "+history.SafetyViolated), green}, 9, 1, 2, history.SafetyViolated},
		{"a detector that failed", []string{gaveUp, green}, 0, 0, 2, "repeated: shardway/e2e: the race detector failed"},
		{"a detector that failed twice", []string{gaveUp, gaveUp, green}, 9, 1, 2, "the race detector failed"},
		{"a detector that failed, then red", []string{gaveUp, red, green}, 9, 1, 2, "the race detector failed"},
		{"red before the detector failed", []string{gaveUp + red, green}, 0, 1, 1, "the machine was available"},
		{"a race before the detector failed", []string{race("") + gaveUp, green}, 9, 1, 1, "none of its tests did"},
		{"a race of a test before the detector failed", []string{race("TestB/c") + gaveUp, green}, 9, 1, 1, "none of its tests did"},
		{"no test to blame", []string{broken, green}, 9, 1, 1, "none of its tests did"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "sum"), stub, 0o700)
			for i, r := range tt.runs {
				write(t, filepath.Join(dir, string(rune('1'+i))+".json"), r, 0o600)
			}
			var out bytes.Buffer
			t.Chdir(dir)
			r := runner{
				sumCommand: []string{"./sum", "--format", "pkgname"}, testFlags: []string{"-race", "-run", "^(TestA|TestB)$", "-skip=TestC", "./e2e"},
				jsonFile: "whole.json", maxRepeats: 2, maxDuration: time.Minute, unavailability: unavailableDuring(tt.away), out: &out,
			}
			status, err := r.run(t.Context())
			if err != nil || status != tt.status || !strings.Contains(out.String(), tt.said) {
				t.Errorf("status %d, %v, want %d; it said:\n%s", status, err, tt.status, out.String())
			}
			calls := strings.Split(strings.TrimSpace(content(t, "calls")), "\n")
			if len(calls) != tt.calls {
				t.Errorf("%d runs, want %d", len(calls), tt.calls)
			}
			if len(calls) > 1 && tt.runs[0] == gaveUp {
				if want := "--format pkgname --jsonfile whole.e2e.json -- -race -run ^(TestA|TestB)$ -skip=TestC shardway/e2e"; calls[1] != want {
					t.Errorf("repeated by %q, want %q", calls[1], want)
				}
			} else if len(calls) > 1 {
				if want := "--format pkgname --jsonfile whole.TestA.1.json -- -race -run ^TestA$ shardway/e2e"; calls[1] != want {
					t.Errorf("repeated by %q, want %q", calls[1], want)
				}
			}
		})
	}
}

func TestVirtualTimeTestsAreNotRepeated(t *testing.T) {
	var out bytes.Buffer
	dir := t.TempDir()
	write(t, filepath.Join(dir, "sum"), stub, 0o700)
	write(t, filepath.Join(dir, "1.json"), red, 0o600)
	t.Chdir(dir)
	// The availability of the real machine does not matter.
	status, err := run(t.Context(), []string{"-json", "out.json", "-never", "^shardway/e2e$", "--", "./sum", "--", "./e2e"}, &out)
	if err != nil || status != 1 || !strings.Contains(out.String(), "uses virtual time") {
		t.Errorf("status %d, %v, want 1; it said:\n%s", status, err, out.String())
	}
}

func TestRepeatsEndAtTheTimeLimit(t *testing.T) {
	var out bytes.Buffer
	dir := t.TempDir()
	write(t, filepath.Join(dir, "sum"), stub, 0o700)
	write(t, filepath.Join(dir, "1.json"), red, 0o600)
	write(t, filepath.Join(dir, "2.json"), green, 0o600)
	t.Chdir(dir)
	r := runner{sumCommand: []string{"./sum"}, jsonFile: "whole.json", maxRepeats: 2, maxDuration: time.Minute, deadline: time.Now(), unavailability: unavailableDuring(9), out: &out}
	if status, err := r.run(t.Context()); err != nil || status != 1 || !strings.Contains(out.String(), "no time is left") {
		t.Errorf("status %d, %v, want 1; it said:\n%s", status, err, out.String())
	}
}

func TestTooManyFailuresAreNotRepeated(t *testing.T) {
	var out bytes.Buffer
	r := runner{maxRepeats: 1, unavailability: unavailableDuring(9), out: &out}
	found := results{failedTests: []failure{{testID: testID{"p", "TestA"}}, {testID: testID{"p", "TestB"}}}}
	if r.mayRepeat(found) || !strings.Contains(out.String(), "2 tests failed") {
		t.Errorf("repeatable; it said: %s", &out)
	}
}

func TestUsageIsPrinted(t *testing.T) {
	for _, args := range [][]string{{}, {"-json", "x"}, {"--", "a", "--", "b"}, {"-json", "x", "--", "--", "b"}, {"-json", "x", "--", "a"}, {"-json", "x", "-until", "soon", "--", "a", "--", "b"}} {
		if status, err := run(context.Background(), args, &bytes.Buffer{}); status != 2 || err == nil && !slices.Contains(args, "-until") {
			t.Errorf("%q: status %d, %v, want 2 and the usage", args, status, err)
		}
	}
}

func TestTestSelectionFlagsAreRemoved(t *testing.T) {
	got := testArgs([]string{"-p", "1", "-timeout", "20m", "-skip", "X", "-run=Y", "./...", "shardway/e2e/kit/load"}, failure{testID: testID{"shardway/e2e", "TestA"}})
	if want := []string{"-p", "1", "-timeout", "20m", "-run", "^TestA$", "shardway/e2e"}; !slices.Equal(got, want) {
		t.Errorf("alone = %q, want %q", got, want)
	}
}

func write(t *testing.T, name, content string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
