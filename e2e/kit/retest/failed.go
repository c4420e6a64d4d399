package main

import (
	"bufio"
	"cmp"
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
	testID

	from, until time.Time // start and end of the test
	// noRetryReason is the reason why the test must not be repeated. Empty means that it may be
	// repeated.
	noRetryReason string
}

// testID is a top-level test of a package. An empty test is the package itself, outside its tests.
type testID struct{ pkg, test string }

func (id testID) String() string { return id.pkg + "." + id.test }

// results are the results of one run of `go test -json`.
type results struct {
	failedTests []failure
	// brokenPackages are packages that failed without a failed test: they did not compile, exited,
	// panicked, timed out, or had a data race outside a test.
	brokenPackages []string
	// detectorCrashes are packages whose test process the race detector aborted because of a bug in the
	// detector. Their running tests have not failed.
	detectorCrashes []string
}

// readFile reads the output of `go test -json` from a file.
func readFile(name string) (results, error) {
	file, err := os.Open(name) //nolint:gosec // written by the command that was run
	if err != nil {
		return results{}, fmt.Errorf("retest: %w", err)
	}
	defer func() { _ = file.Close() }()
	return parseEvents(file)
}

// parseEvents reads the output of `go test -json`. It skips lines that are not JSON, such as
// compiler errors. In that case another event reports the package as failed.
func parseEvents(r io.Reader) (results, error) {
	parsed := eventLog{
		startedAt: make(map[testID]time.Time), noRetryReasons: make(map[testID]string),
		hasNoRetryReason: make(map[string]bool), detectorCrashed: make(map[string]bool),
	}
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return results{}, fmt.Errorf("retest: %w", err)
		}
		var event testEvent
		if json.Unmarshal(line, &event) == nil {
			parsed.add(event)
		}
		if err == io.EOF {
			return parsed.results(), nil
		}
	}
}

// eventLog collects the events of one run of `go test -json`.
type eventLog struct {
	startedAt        map[testID]time.Time
	noRetryReasons   map[testID]string // failure.noRetryReason
	hasNoRetryReason map[string]bool   // by package: it has an entry in noRetryReasons
	detectorCrashed  map[string]bool   // by package: the race detector crashed in it
	failedTests      []failure
	failedPackages   []string
}

// add adds one event.
func (l *eventLog) add(event testEvent) {
	test, _, isSubtest := strings.Cut(event.Test, "/")
	id := testID{event.Package, test}
	switch event.Action {
	case "output":
		l.addOutput(id, event.Output)
	case "run":
		if !isSubtest {
			l.startedAt[id] = event.Time
		}
	case "fail":
		switch {
		case event.Test == "":
			l.failedPackages = append(l.failedPackages, event.Package)
		case !isSubtest:
			l.failedTests = append(l.failedTests, failure{testID: id, from: l.startedAt[id], until: event.Time})
		}
	}
}

// addOutput adds a line of output of a test, or of its package.
func (l *eventLog) addOutput(id testID, output string) {
	if strings.Contains(output, raceDetectorCrash) {
		l.detectorCrashed[id.pkg] = true
	}
	reason := noRetryReason(output)
	if reason != "" && l.noRetryReasons[id] == "" {
		l.noRetryReasons[id], l.hasNoRetryReason[id.pkg] = reason, true
	}
}

// results returns the results of the run.
func (l *eventLog) results() results {
	var found results
	for _, test := range l.failedTests {
		// The output of a package outside its tests may belong to any of them.
		test.noRetryReason = cmp.Or(l.noRetryReasons[test.testID], l.noRetryReasons[testID{pkg: test.pkg}])
		found.failedTests = append(found.failedTests, test)
	}
	for _, pkg := range l.failedPackages {
		hasFailedTest := slices.ContainsFunc(l.failedTests, func(test failure) bool { return test.pkg == pkg })
		switch {
		case hasFailedTest:
			continue // The failed tests explain the failure of the package.
		case l.detectorCrashed[pkg] && !l.hasNoRetryReason[pkg]:
			found.detectorCrashes = append(found.detectorCrashes, pkg)
		default:
			found.brokenPackages = append(found.brokenPackages, pkg)
		}
	}
	return found
}

// raceDetectorCrash is the message with which the race detector aborts because of a bug in the detector
// itself. One bug concerns timers in synctest bubbles (go.dev/issue/78156). The message about a data race is
// different.
const raceDetectorCrash = "ThreadSanitizer: CHECK failed: "

// noRetryReason returns why a test with this output must not be repeated. Empty means that it may be
// repeated.
func noRetryReason(output string) string {
	for _, known := range []struct{ pattern, reason string }{
		{history.SafetyViolated, history.SafetyViolated},
		{"WARNING: DATA RACE", "a data race"},
		{"panic: ", "a panic"},
		{"fatal error: ", "a panic"},
	} {
		if strings.Contains(output, known.pattern) {
			return known.reason
		}
	}
	return ""
}
