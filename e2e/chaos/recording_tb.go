//go:build linux

package chaos

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// recordingTB is the testing.TB of a run. It records failures for the report instead of
// failing the test, and runs cleanups at the end of the run instead of the end of the
// test.
type recordingTB struct {
	testing.TB // for Context, Name and Logf

	quiet bool

	mu       sync.Mutex
	failures []string
	cleanups []func()
}

// runWithCleanups runs body until it returns or calls FailNow, and then all registered cleanups.
func (r *recordingTB) runWithCleanups(body func()) {
	r.runIsolated(body)
	for {
		r.mu.Lock()
		n := len(r.cleanups) - 1
		if n < 0 {
			r.mu.Unlock()
			return
		}
		cleanup := r.cleanups[n]
		r.cleanups = r.cleanups[:n]
		r.mu.Unlock()
		r.runIsolated(cleanup)
	}
}

// runIsolated runs body on its own goroutine, which FailNow may end.
func (*recordingTB) runIsolated(body func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		body()
	}()
	<-done
}

// Cleanup registers a function that runs at the end of the run.
func (r *recordingTB) Cleanup(cleanup func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, cleanup)
}

func (r *recordingTB) record(text string) {
	r.mu.Lock()
	r.failures = append(r.failures, strings.TrimSpace(text))
	r.mu.Unlock()
}

// Failed reports whether there is a failure so far.
func (r *recordingTB) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.failures) > 0
}

// recordedFailures returns all failures so far.
func (r *recordingTB) recordedFailures() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.failures)
}

// Error records a failure.
func (r *recordingTB) Error(args ...any) { r.record(fmt.Sprintln(args...)) }

// Errorf records a failure.
func (r *recordingTB) Errorf(format string, args ...any) { r.record(fmt.Sprintf(format, args...)) }

// Fail records a failure without a text.
func (r *recordingTB) Fail() { r.record("failed") }

// FailNow records a failure and ends the goroutine.
func (r *recordingTB) FailNow() {
	r.record("failed")
	runtime.Goexit()
}

// Fatal records a failure and ends the goroutine.
func (r *recordingTB) Fatal(args ...any) {
	r.Error(args...)
	runtime.Goexit()
}

// Fatalf records a failure and ends the goroutine.
func (r *recordingTB) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// Log prints unless the run is quiet.
func (r *recordingTB) Log(args ...any) {
	r.Helper()
	if !r.quiet {
		r.TB.Log(args...)
	}
}

// Logf prints unless the run is quiet.
func (r *recordingTB) Logf(format string, args ...any) {
	r.Helper()
	if !r.quiet {
		r.TB.Logf(format, args...)
	}
}
