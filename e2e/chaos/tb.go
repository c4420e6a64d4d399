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

// bench stands between what runs a cluster and the test: what fails becomes part
// of the report, and what is to be cleaned up is when the run is over, not the
// test.
type bench struct {
	testing.TB // whose Context, Name and Logf are meant

	quiet bool

	mu       sync.Mutex
	failures []string
	cleanups []func()
}

// do runs f until it returns or fails for good, then all cleanups.
func (b *bench) do(f func()) {
	b.apart(f)
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
		b.apart(last)
	}
}

// apart runs f on a goroutine that FailNow may end.
func (*bench) apart(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

// Cleanup calls f at the end of the run.
func (b *bench) Cleanup(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cleanups = append(b.cleanups, f)
}

func (b *bench) keep(text string) {
	b.mu.Lock()
	b.failures = append(b.failures, strings.TrimSpace(text))
	b.mu.Unlock()
}

// Failed tells whether anything failed so far.
func (b *bench) Failed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.failures) > 0
}

// told are all failures so far.
func (b *bench) told() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.failures)
}

// Error notes a failure.
func (b *bench) Error(args ...any) { b.keep(fmt.Sprintln(args...)) }

// Errorf notes a failure.
func (b *bench) Errorf(format string, args ...any) { b.keep(fmt.Sprintf(format, args...)) }

// Fail notes a failure without a word.
func (b *bench) Fail() { b.keep("failed") }

// FailNow ends the goroutine.
func (b *bench) FailNow() {
	b.keep("failed")
	runtime.Goexit()
}

// Fatal notes a failure and ends the goroutine.
func (b *bench) Fatal(args ...any) {
	b.Error(args...)
	runtime.Goexit()
}

// Fatalf notes a failure and ends the goroutine.
func (b *bench) Fatalf(format string, args ...any) {
	b.Errorf(format, args...)
	runtime.Goexit()
}

// Log prints unless the run is quiet.
func (b *bench) Log(args ...any) {
	b.Helper()
	if !b.quiet {
		b.TB.Log(args...)
	}
}

// Logf prints unless the run is quiet.
func (b *bench) Logf(format string, args ...any) {
	b.Helper()
	if !b.quiet {
		b.TB.Logf(format, args...)
	}
}
