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

// run runs f until it returns or calls FailNow, and then all cleanups.
func (b *recordingTB) run(f func()) {
	b.runIsolated(f)
	for {
		b.mu.Lock()
		n := len(b.cleanups) - 1
		if n < 0 {
			b.mu.Unlock()
			return
		}
		last := b.cleanups[n]
		b.cleanups = b.cleanups[:n]
		b.mu.Unlock()
		b.runIsolated(last)
	}
}

// runIsolated runs f on a goroutine that FailNow may end.
func (*recordingTB) runIsolated(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

// Cleanup registers f for the end of the run.
func (b *recordingTB) Cleanup(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cleanups = append(b.cleanups, f)
}

func (b *recordingTB) record(text string) {
	b.mu.Lock()
	b.failures = append(b.failures, strings.TrimSpace(text))
	b.mu.Unlock()
}

// Failed reports whether there is a failure so far.
func (b *recordingTB) Failed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.failures) > 0
}

// recorded returns all failures so far.
func (b *recordingTB) recorded() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.failures)
}

// Error records a failure.
func (b *recordingTB) Error(args ...any) { b.record(fmt.Sprintln(args...)) }

// Errorf records a failure.
func (b *recordingTB) Errorf(format string, args ...any) { b.record(fmt.Sprintf(format, args...)) }

// Fail records a failure without a text.
func (b *recordingTB) Fail() { b.record("failed") }

// FailNow records a failure and ends the goroutine.
func (b *recordingTB) FailNow() {
	b.record("failed")
	runtime.Goexit()
}

// Fatal records a failure and ends the goroutine.
func (b *recordingTB) Fatal(args ...any) {
	b.Error(args...)
	runtime.Goexit()
}

// Fatalf records a failure and ends the goroutine.
func (b *recordingTB) Fatalf(format string, args ...any) {
	b.Errorf(format, args...)
	runtime.Goexit()
}

// Log prints unless the run is quiet.
func (b *recordingTB) Log(args ...any) {
	b.Helper()
	if !b.quiet {
		b.TB.Log(args...)
	}
}

// Logf prints unless the run is quiet.
func (b *recordingTB) Logf(format string, args ...any) {
	b.Helper()
	if !b.quiet {
		b.TB.Logf(format, args...)
	}
}
