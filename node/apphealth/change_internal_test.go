package apphealth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"shardway/internal/clock"
)

// The shards of an app that never responded do not wait for it. Only an app that has been healthy and then refuses connections may be
// restarting, whatever happened before.
func TestAppThatComesAndGoesIsWaitedFor(t *testing.T) {
	refused := fmt.Errorf("dial: %w", syscall.ECONNREFUSED)
	set := Settings{Interval: 500 * time.Millisecond, Timeout: time.Second, Fall: 3, Rise: 1, Hold: 8 * time.Second}
	runChecks(t, set, func(c *checked) {
		c.until(t, true)
		c.is(errors.New("sick"), 0)
		c.until(t, false)
		c.is(refused, 0)
		time.Sleep(10 * time.Second)
		c.is(nil, 0)
		c.until(t, true)
		c.is(refused, 0)
		if took := c.until(t, false); took < 7*time.Second {
			t.Errorf("it was waited for %v, want 8s: it was not before", took)
		}
	})
}

// A missing Unix socket counts as a refused connection.
func TestAppRefusesOnASocketToo(t *testing.T) {
	for err, want := range map[error]bool{syscall.ECONNREFUSED: true, syscall.ENOENT: true, syscall.ECONNRESET: false, context.DeadlineExceeded: false} {
		if got := Refused(fmt.Errorf("dial: %w", err)); got != want {
			t.Errorf("%v is a refusal: %v, want %v", err, got, want)
		}
	}
}

// Each change of health is reported once, and the error of a check only as long as checks fail, as one short line.
func TestHealthChangesAreReportedOnce(t *testing.T) {
	runChecks(t, Settings{Interval: 500 * time.Millisecond, Timeout: time.Second, Fall: 2, Rise: 1}, func(c *checked) {
		for range 2 {
			c.until(t, true)
			time.Sleep(5 * time.Second)
			c.is(errors.New("sick\n"+strings.Repeat("x", 1<<10)), 0)
			c.until(t, false)
			time.Sleep(5 * time.Second)
			if why := c.LastError(); !strings.HasPrefix(why, "sick xxx") || len(why) > 300 {
				t.Errorf("it failed with %q", why)
			}
			c.is(nil, 0)
		}
		c.until(t, true)
		if why := c.LastError(); why != "" {
			t.Errorf("it is well, and failed with %q", why)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if want := []string{"true", "false", "true", "false", "true"}; !slices.Equal(c.turns, want) {
			t.Errorf("told %v, want %v", c.turns, want)
		}
	})
}

// The log contains once that the app has not been reached yet, and only if that is so. It mentions no waiting if no shards wait.
func TestFailedFirstCheckIsReported(t *testing.T) {
	refused := fmt.Errorf("dial: %w", syscall.ECONNREFUSED)
	for first, want := range map[error]int{refused: 1, nil: 0} {
		var log bytes.Buffer
		h := NewChecker(nil, Settings{}, new(clock.Scheduler), zerolog.New(&log), func() {})
		set := Settings{Fall: 3, Rise: 2}
		for _, err := range []error{first, refused, nil, nil, refused, refused} {
			h.apply(set, err)
		}
		if n := strings.Count(log.String(), "app not reachable yet"); n != want {
			t.Errorf("after %v: %d lines, want %d: %s", first, n, want, log.String())
		}
		if strings.Contains(log.String(), "requests queued") {
			t.Errorf("told that it is waited for: %s", log.String())
		}
	}
}

// The end of the run ends checks immediately, in a pause or during a check. An interrupted check does not change the health of the app.
func TestChecksEndWithTheRun(t *testing.T) {
	for name, takes := range map[string]time.Duration{"in a pause": 0, "in a check": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := NewChecker(func(ctx context.Context) error {
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-time.After(takes):
						return nil
					}
				}, Settings{Interval: time.Hour, Timeout: time.Hour, Fall: 1, Rise: 1}, new(clock.Scheduler), zerolog.Nop(), func() {})
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { h.Run(ctx); close(ended) }()
				time.Sleep(time.Minute)
				cancel()
				began := time.Now()
				<-ended
				if took := time.Since(began); took > 0 || h.Checked() != (takes == 0) || h.LastError() != "" {
					t.Errorf("ended after %v, checked: %v, failed with %q", took, h.Checked(), h.LastError())
				}
			})
		})
	}
}

// Only a refused connection triggers a check. If a connection is accepted, or times out, the app is checked at the regular time.
func TestOnlyARefusedConnectionAsksForACheck(t *testing.T) {
	for err, want := range map[error]int{nil: 0, context.DeadlineExceeded: 0, syscall.ECONNREFUSED: 1} {
		h := NewChecker(nil, Settings{}, new(clock.Scheduler), zerolog.Nop(), nil)
		dial := h.WatchDial(func(context.Context) (net.Conn, error) { return nil, err })
		for range 2 {
			if _, got := dial(t.Context()); !errors.Is(got, err) {
				t.Errorf("%v becomes %v", err, got)
			}
		}
		if len(h.refused) != want {
			t.Errorf("after %v a check is asked for %d times, want %d", err, len(h.refused), want)
		}
	}
}

// A refused connection makes the next check earlier, never later.
func TestRefusedConnectionDelaysNoCheck(t *testing.T) {
	runChecks(t, Settings{Interval: 50 * time.Millisecond, Timeout: time.Second, Fall: 3, Rise: 1}, func(c *checked) {
		for range 100 {
			time.Sleep(7 * time.Millisecond)
			c.checkSoon()
		}
		at := c.checks()
		for i := range at[1:] {
			if gap := at[i+1] - at[i]; gap > 56*time.Millisecond {
				t.Errorf("%v between two checks, want 55ms at most", gap)
			}
		}
	})
}
