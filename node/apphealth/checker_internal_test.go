package apphealth

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/internal/clock"
)

// checked is an app whose health is checked in a bubble.
type checked struct {
	*Checker
	began time.Time

	mu    sync.Mutex
	err   error
	takes time.Duration
	at    []time.Duration // start times of the checks
	turns []string
}

// is makes the app respond with err from now on, after the time takes.
func (c *checked) is(err error, takes time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err, c.takes = err, takes
}

// answer returns the delay and the response of the app.
func (c *checked) answer() (time.Duration, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.takes, c.err
}

// checks returns the start times of the checks.
func (c *checked) checks() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.at)
}

// runChecks runs f while an app is checked. The app is healthy at the start.
func runChecks(t *testing.T, set Settings, f func(c *checked)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var pulse clock.Scheduler
		c := &checked{began: time.Now()}
		c.Checker = NewChecker(func(ctx context.Context) error {
			c.mu.Lock()
			c.at = append(c.at, time.Since(c.began))
			c.mu.Unlock()
			takes, err := c.answer()
			if takes == 0 {
				return err
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(takes):
				return err
			}
		}, set, &pulse, zerolog.Nop(), func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.turns = append(c.turns, strconv.FormatBool(c.Healthy()))
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.Run(ctx)
		}()
		go pulse.Run(ctx) // ends with ctx
		synctest.Wait()
		f(c)
		cancel()
		<-done
	})
}

// until waits until the app counts as healthy or unhealthy, and returns how long that took.
func (c *checked) until(t *testing.T, good bool) time.Duration {
	t.Helper()
	began := time.Now()
	for c.Healthy() != good {
		if time.Since(began) > time.Minute {
			t.Fatalf("never became %t", good)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
	}
	return time.Since(began)
}

func TestAppFallsAndRisesAfterSoManyChecks(t *testing.T) {
	runChecks(t, Settings{Interval: time.Second, Timeout: time.Second, Fall: 4, Rise: 2}, func(c *checked) {
		if took := c.until(t, true); took < 900*time.Millisecond || took > 1200*time.Millisecond {
			t.Errorf("healthy after %v, want after the second check", took)
		}
		for range 3 { // fewer consecutive failures have no effect
			c.is(errors.New("sick"), 0)
			time.Sleep(2500 * time.Millisecond)
			c.is(nil, 0)
			time.Sleep(1500 * time.Millisecond)
		}
		c.mu.Lock()
		turns := slices.Clone(c.turns)
		c.mu.Unlock()
		if len(turns) != 1 {
			t.Errorf("it turned %v, want only to healthy", turns)
		}
		c.is(errors.New("sick"), 0)
		if took := c.until(t, false); took < 2600*time.Millisecond || took > 4500*time.Millisecond {
			t.Errorf("unhealthy after %v, want after the fourth check", took)
		}
		c.is(nil, 0)
		if took := c.until(t, true); took < 800*time.Millisecond || took > 2300*time.Millisecond {
			t.Errorf("healthy again after %v, want after the second check", took)
		}
	})
}

// The checks of nodes that start together drift apart. Otherwise all of them would be sent at the same time forever.
func TestChecksDriftApart(t *testing.T) {
	runChecks(t, DefaultSettings(), func(c *checked) {
		time.Sleep(time.Minute)
		odd, at := map[time.Duration]bool{}, c.checks()
		for i := 1; i < len(at); i++ {
			gap := at[i] - at[i-1]
			odd[gap] = true
			if gap < 450*time.Millisecond || gap > 550*time.Millisecond {
				t.Fatalf("%v between two checks, want 500ms and a tenth more or less", gap)
			}
		}
		if len(odd) < 20 {
			t.Errorf("%d different times between %d checks", len(odd), len(at))
		}
	})
}

// A refused connection triggers a check. Once, a killed app became unhealthy only after three checks half a second apart, although each
// request was refused immediately.
func TestRefusedConnectionAsksForACheck(t *testing.T) {
	runChecks(t, Settings{Interval: 10 * time.Second, Timeout: time.Second, Fall: 3, Rise: 1}, func(c *checked) {
		time.Sleep(time.Second)
		refused := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
		c.is(refused, 0)
		dial := c.WatchDial(func(context.Context) (net.Conn, error) { _, err := c.answer(); return nil, err })
		began, before := time.Now(), len(c.checks())
		for c.Healthy() && time.Since(began) < time.Minute {
			if _, err := dial(t.Context()); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Fatalf("dial = %v, want what the app said", err)
			}
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		if took := time.Since(began); took < 200*time.Millisecond || took > 310*time.Millisecond {
			t.Errorf("unhealthy after %v, want three checks 100 ms apart", took)
		}
		if n := len(c.checks()) - before; n != 3 {
			t.Errorf("%d checks, want 3", n)
		}
		// Another error than a refused connection triggers no check.
		before = len(c.checks())
		c.is(context.DeadlineExceeded, 0)
		_, _ = dial(t.Context())
		time.Sleep(5 * time.Second)
		if n := len(c.checks()) - before; n > 1 {
			t.Errorf("%d checks after a connection that timed out, want none of its own", n)
		}
	})
}

// A lack of file descriptors does not fail a health check. Once, a node without free descriptors considered its app unhealthy, and gave its
// shards away.
func TestDescriptorExhaustionDoesNotFailHealthCheck(t *testing.T) {
	runChecks(t, DefaultSettings(), func(c *checked) {
		c.until(t, true)
		for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL} {
			c.is(fmt.Errorf("check: %w", &net.OpError{Op: "dial", Err: os.NewSyscallError("socket", errno)}), 0)
			time.Sleep(30 * time.Second)
			if !c.Healthy() || c.Report().Failing {
				t.Errorf("%v: the app is taken for unhealthy", errno)
			}
		}
		c.is(errors.New("sick"), 0)
		c.until(t, false)
		c.is(&net.OpError{Op: "dial", Err: os.NewSyscallError("socket", syscall.EMFILE)}, 0)
		time.Sleep(30 * time.Second)
		if c.Healthy() {
			t.Error("the app is taken for healthy")
		}
	})
}

// Heartbeats contain whether the last check failed, and how often the app has become unhealthy.
func TestHealthReportsFailuresAndFalls(t *testing.T) {
	runChecks(t, Settings{Interval: time.Second, Timeout: time.Second, Fall: 3, Rise: 1}, func(c *checked) {
		c.until(t, true)
		if got := c.Report(); got != (ack.AppHealth{}) {
			t.Errorf("at first %+v", got)
		}
		c.is(&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, 0)
		time.Sleep(1500 * time.Millisecond)
		if got := c.Report(); got != (ack.AppHealth{Failing: true, Refused: true}) || !c.Healthy() {
			t.Errorf("after one or two failed checks %+v", got)
		}
		for fall := range uint32(3) {
			c.is(errors.New("sick"), 0)
			c.until(t, false)
			if got := c.Report(); got != (ack.AppHealth{Failing: true, FlapCount: fall + 1}) {
				t.Errorf("after fall %d: %+v", fall+1, got)
			}
			c.is(nil, 0)
			c.until(t, true)
		}
		time.Sleep(11 * time.Minute)
		if got := c.Report(); got != (ack.AppHealth{}) {
			t.Errorf("eleven minutes later %+v", got)
		}
	})
}

func TestNewSettingsOfChecksCountFromTheNextOn(t *testing.T) {
	runChecks(t, DefaultSettings(), func(c *checked) {
		c.is(nil, 3*time.Second)
		c.until(t, false) // each check takes longer than its timeout
		c.SetSettings(Settings{Interval: time.Second, Timeout: 4 * time.Second, Fall: 1, Rise: 1})
		c.until(t, true)
	})
}
