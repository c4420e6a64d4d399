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

// event is a line of `go test -json` (go doc test2json).
type event struct {
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
	// final is the reason why it must not be repeated; empty means that it may.
	final string
}

func (f failure) String() string { return f.pkg + "." + f.test }

// results are the results of one run of `go test -json`.
type results struct {
	failed []failure
	// broken are packages that failed without a failed test: they did not compile,
	// exited, panicked, timed out, or had a data race outside a test.
	broken []string
	// detector are packages that the race detector ended because of its own fault. Their
	// running tests have not failed.
	detector []string
}

func readFile(name string) (results, error) {
	file, err := os.Open(name) //nolint:gosec // written by what was run
	if err != nil {
		return results{}, fmt.Errorf("retest: %w", err)
	}
	defer func() { _ = file.Close() }()
	return read(file)
}

// read reads the output of `go test -json`. It skips lines that are not JSON, such as
// compiler errors; their package has failed then.
func read(r io.Reader) (results, error) {
	type key struct{ pkg, test string }
	began := make(map[key]time.Time)
	final := make(map[key]string)
	hasFinal := make(map[string]bool)       // packages with a reason of failure.final
	detectorFailed := make(map[string]bool) // packages in which the race detector failed
	var failed []failure
	var packages []string
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return results{}, fmt.Errorf("retest: %w", err)
		}
		var e event
		if json.Unmarshal(line, &e) == nil {
			test, _, below := strings.Cut(e.Test, "/")
			k := key{e.Package, test}
			switch {
			case e.Action == "output":
				if strings.Contains(e.Output, detectorGaveUp) {
					detectorFailed[e.Package] = true
				}
				if why := finality(e.Output); why != "" && final[k] == "" {
					final[k], hasFinal[e.Package] = why, true
				}
			case e.Action == "run" && !below:
				began[k] = e.Time
			case e.Action == "fail" && e.Test == "":
				packages = append(packages, e.Package)
			case e.Action == "fail" && !below:
				failed = append(failed, failure{pkg: e.Package, test: test, from: began[k], until: e.Time})
			}
		}
		if err != nil {
			break
		}
	}
	var out results
	for _, f := range failed {
		// The output of a package outside its tests may belong to any of them.
		if f.final = final[key{f.pkg, f.test}]; f.final == "" {
			f.final = final[key{f.pkg, ""}]
		}
		out.failed = append(out.failed, f)
	}
	for _, pkg := range packages {
		switch {
		case slices.ContainsFunc(failed, func(f failure) bool { return f.pkg == pkg }):
		case detectorFailed[pkg] && !hasFinal[pkg]:
			out.detector = append(out.detector, pkg)
		default:
			out.broken = append(out.broken, pkg)
		}
	}
	return out, nil
}

// detectorGaveUp is the message with which the race detector ends a process because of
// its own fault, as with timers of synctest bubbles (go.dev/issue/78156). The message
// about a data race is different.
const detectorGaveUp = "ThreadSanitizer: CHECK failed: "

// finality returns why a test with this output must not be repeated.
func finality(output string) string {
	for _, m := range []struct{ mark, why string }{
		{history.SafetyViolated, history.SafetyViolated},
		{"WARNING: DATA RACE", "a data race"},
		{"panic: ", "a panic"},
		{"fatal error: ", "a panic"},
	} {
		if strings.Contains(output, m.mark) {
			return m.why
		}
	}
	return ""
}
