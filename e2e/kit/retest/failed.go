package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"shardway/e2e/kit/history"
)

// testEvent is a line of `go test -json` (go doc test2json).
type testEvent struct {
	Time    time.Time
	Action  string
	Package string
	Test    string
	Output  string
}

// failure is a failed test, including its subtests.
type failure struct {
	pkg, test   string
	from, until time.Time
	// finalReason is the reason why the test must not be repeated. Empty means that it may be.
	finalReason string
}

func (f failure) String() string { return f.pkg + "." + f.test }

// results are the results of one run of `go test -json`.
type results struct {
	failedTests []failure
	// brokenPackages are packages that failed without a failed test: they did not compile, exited,
	// panicked, timed out, or had a data race outside a test.
	brokenPackages []string
	// detectorFailures are packages that the race detector ended because of its own fault. Their
	// running tests have not failed.
	detectorFailures []string
}

func readFile(name string) (results, error) {
	file, err := os.Open(name) //nolint:gosec // written by what was run
	if err != nil {
		return results{}, fmt.Errorf("retest: %w", err)
	}
	defer func() { _ = file.Close() }()
	return parseEvents(file)
}

// parseEvents reads the output of `go test -json`. It skips lines that are not JSON, such as
// compiler errors; their package has failed then.
func parseEvents(r io.Reader) (results, error) {
	type testID struct{ pkg, test string }
	began := make(map[testID]time.Time)
	finalReasons := make(map[testID]string)
	hasFinalReason := make(map[string]bool) // packages with a reason of failure.finalReason
	detectorFailed := make(map[string]bool) // packages in which the race detector failed
	var failed []failure
	var packages []string
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return results{}, fmt.Errorf("retest: %w", err)
		}
		var parsed testEvent
		if json.Unmarshal(line, &parsed) == nil {
			test, _, isSubtest := strings.Cut(parsed.Test, "/")
			id := testID{parsed.Package, test}
			switch {
			case parsed.Action == "output":
				if strings.Contains(parsed.Output, detectorFailure) {
					detectorFailed[parsed.Package] = true
				}
				if reason := finalReason(parsed.Output); reason != "" && finalReasons[id] == "" {
					finalReasons[id], hasFinalReason[parsed.Package] = reason, true
				}
			case parsed.Action == "run" && !isSubtest:
				began[id] = parsed.Time
			case parsed.Action == "fail" && parsed.Test == "":
				packages = append(packages, parsed.Package)
			case parsed.Action == "fail" && !isSubtest:
				failed = append(failed, failure{pkg: parsed.Package, test: test, from: began[id], until: parsed.Time})
			}
		}
		if err != nil {
			break
		}
	}
	var out results
	for _, test := range failed {
		// The output of a package outside its tests may belong to any of them.
		if test.finalReason = finalReasons[testID{test.pkg, test.test}]; test.finalReason == "" {
			test.finalReason = finalReasons[testID{test.pkg, ""}]
		}
		out.failedTests = append(out.failedTests, test)
	}
	for _, pkg := range packages {
		switch {
		case slices.ContainsFunc(failed, func(test failure) bool { return test.pkg == pkg }):
		case detectorFailed[pkg] && !hasFinalReason[pkg]:
			out.detectorFailures = append(out.detectorFailures, pkg)
		default:
			out.brokenPackages = append(out.brokenPackages, pkg)
		}
	}
	return out, nil
}

// detectorFailure is the message with which the race detector ends a process because of
// its own fault, as with timers of synctest bubbles (go.dev/issue/78156). The message
// about a data race is different.
const detectorFailure = "ThreadSanitizer: CHECK failed: "

// finalReason returns why a test with this output must not be repeated.
func finalReason(output string) string {
	for _, known := range []struct{ mark, why string }{
		{history.SafetyViolated, history.SafetyViolated},
		{"WARNING: DATA RACE", "a data race"},
		{"panic: ", "a panic"},
		{"fatal error: ", "a panic"},
	} {
		if strings.Contains(output, known.mark) {
			return known.why
		}
	}
	return ""
}
