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

// failure is a test, with all below it, that failed.
type failure struct {
	pkg, test   string
	from, until time.Time
	// final says why it is not to be repeated, whatever the machine did; empty: nothing
	// speaks against it.
	final string
}

func (f failure) String() string { return f.pkg + "." + f.test }

// results are what a run of `go test -json` tells.
type results struct {
	failed []failure
	// broken are packages that failed for another reason than a test: they do not
	// compile, exited, panicked, took too long, or raced outside of a test.
	broken []string
	// detector are packages that the race detector ended by a fault of its own. Tests
	// of theirs that were under way have not failed.
	detector []string
}

func readFile(name string) (results, error) {
	f, err := os.Open(name) //nolint:gosec // written by what was run
	if err != nil {
		return results{}, fmt.Errorf("rerun: %w", err)
	}
	defer func() { _ = f.Close() }()
	return read(f)
}

// read reads what `go test -json` wrote. Lines that are not JSON are passed over:
// what a compiler says, say; its package has failed then.
func read(r io.Reader) (results, error) {
	type key struct{ pkg, test string }
	began := make(map[key]time.Time)
	final := make(map[key]string)
	marked := make(map[string]bool) // packages of which something is final
	gaveUp := make(map[string]bool) // packages in which the race detector did
	var failed []failure
	var packages []string
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return results{}, fmt.Errorf("rerun: %w", err)
		}
		var e event
		if json.Unmarshal(line, &e) == nil {
			test, _, below := strings.Cut(e.Test, "/")
			k := key{e.Package, test}
			switch {
			case e.Action == "output":
				if strings.Contains(e.Output, detectorGaveUp) {
					gaveUp[e.Package] = true
				}
				if why := finality(e.Output); why != "" && final[k] == "" {
					final[k], marked[e.Package] = why, true
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
		// What a package says outside of its tests may be of any of them.
		if f.final = final[key{f.pkg, f.test}]; f.final == "" {
			f.final = final[key{f.pkg, ""}]
		}
		out.failed = append(out.failed, f)
	}
	for _, pkg := range packages {
		switch {
		case slices.ContainsFunc(failed, func(f failure) bool { return f.pkg == pkg }):
		case gaveUp[pkg] && !marked[pkg]:
			out.detector = append(out.detector, pkg)
		default:
			out.broken = append(out.broken, pkg)
		}
	}
	return out, nil
}

// detectorGaveUp is how the race detector ends a process when something is wrong with
// itself, as with timers of bubbles (go.dev/issue/78156). A race reads otherwise.
const detectorGaveUp = "ThreadSanitizer: CHECK failed: "

// finality says why a test that printed this is not repeated.
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
