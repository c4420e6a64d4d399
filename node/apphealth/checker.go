package apphealth

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/internal/clock"
	"shardway/internal/logsafe"
)

const (
	// holdEvery is the minimum time between two restarts of the app that Settings.Hold covers.
	holdEvery = time.Minute
	// skipLogEvery is the minimum time between two log lines about skipped checks.
	skipLogEvery = time.Minute
	// earlyCheckEvery is the minimum time between the starts of two checks after refused connections.
	earlyCheckEvery = 100 * time.Millisecond
)

// Checker checks the health of the app at intervals. The app counts as unhealthy until the first good check.
type Checker struct {
	check    func(ctx context.Context) error
	log      zerolog.Logger
	settings atomic.Pointer[Settings]
	healthy  atomic.Bool
	checked  atomic.Bool
	// lastError is the error of the last check; nil if it passed.
	lastError atomic.Pointer[string]
	report    atomic.Pointer[ack.AppHealth]
	onChange  func()        // called after healthy has changed
	refused   chan struct{} // cap 1: the app has refused a connection
	scheduler *clock.Scheduler

	// Only Run uses the following fields.

	ticker       *clock.Ticker   // fires when a check is due
	successes    int             // good checks in a row
	failures     int             // failed checks in a row
	hasSucceeded bool            // a check has been good
	heldSince    time.Time       // when the last hold began, see Settings.Hold
	falls        ack.FlapCounter // counts how often the app became unhealthy
	startedAt    time.Time       // falls counts from this time
	warnedAt     time.Time       // when a skipped check was last logged
}

// NewChecker returns a Checker that uses check, and calls onChange after each change of Healthy. onChange must not
// block.
func NewChecker(check func(context.Context) error, settings Settings, pulse *clock.Scheduler, log zerolog.Logger, onChange func()) *Checker {
	c := &Checker{check: check, log: log, onChange: onChange, startedAt: time.Now(), refused: make(chan struct{}, 1), scheduler: pulse}
	c.settings.Store(&settings)
	c.report.Store(&ack.AppHealth{Starting: true})
	return c
}

// SetSettings replaces the settings, from the next check on.
func (c *Checker) SetSettings(s Settings) { c.settings.Store(&s) }

// Healthy reports whether the app is healthy.
func (c *Checker) Healthy() bool { return c.healthy.Load() }

// Checked reports whether the result of a check is known.
func (c *Checker) Checked() bool { return c.checked.Load() }

// Report returns the details of the app's health for the node's heartbeats, in addition to whether the app is
// healthy.
func (c *Checker) Report() ack.AppHealth { return *c.report.Load() }

// LastError returns the error of the last check, or an empty string if it passed.
func (c *Checker) LastError() string {
	if p := c.lastError.Load(); p != nil {
		return *p
	}
	return ""
}

// Run checks the app until ctx ends.
func (c *Checker) Run(ctx context.Context) {
	c.ticker = c.scheduler.NewOnDemandTicker()
	defer c.ticker.Stop()
	for {
		startedAt, settings := time.Now(), *c.settings.Load()
		err := c.checkOnce(ctx, settings.Timeout)
		if ctx.Err() != nil {
			return
		}
		c.apply(settings, err)
		if !c.waitForNext(ctx, startedAt, settings.Interval) {
			return
		}
	}
}

// checkOnce makes one health check with a timeout.
func (c *Checker) checkOnce(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return c.check(ctx)
}

// waitForNext waits until the next check is due, counted from the start of the last one, or slightly less if
// something else wakes this node. After a refused connection, the next check is due earlyCheckEvery after the start
// of the last one. waitForNext returns false if ctx ends.
func (c *Checker) waitForNext(ctx context.Context, lastStart time.Time, interval time.Duration) bool {
	earliest := lastStart.Add(interval - interval/10)
	due := earliest.Add(interval/20 + rand.N(interval/7+1)) //nolint:gosec // only spreads the checks of the nodes
	for {
		c.ticker.TickWithin(time.Until(due))
		select {
		case <-ctx.Done():
			return false
		case <-c.ticker.C:
			if !time.Now().Before(earliest) { // a tick that comes too early belongs to a previous wait
				return true
			}
		case <-c.refused:
			if early := lastStart.Add(earlyCheckEvery); early.Before(due) {
				due, earliest = early, early
			}
		}
	}
}

// checkSoon brings the next check forward, because the app refused a connection.
func (c *Checker) checkSoon() {
	select {
	case c.refused <- struct{}{}:
	default:
	}
}

// WatchDial wraps dial so that a refused connection brings the next check forward.
func (c *Checker) WatchDial(dial func(context.Context) (net.Conn, error)) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		conn, err := dial(ctx)
		if Refused(err) {
			c.checkSoon()
		}
		return conn, err
	}
}

// Refused reports whether err means that no process listens at the app's address. For a Unix socket, this includes
// ENOENT.
func Refused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT)
}

// isHeld reports whether the app stays healthy although a check has failed with err.
func (c *Checker) isHeld(set Settings, err error) bool {
	if set.Hold <= 0 || !Refused(err) {
		return false
	}
	if time.Since(c.heldSince) >= holdEvery { // also if there was no hold yet
		c.heldSince = time.Now()
		c.log.Warn().Err(err).Dur("grace", set.Hold).Msg("app refuses connections, requests queued")
	}
	return time.Since(c.heldSince) < set.Hold
}

// isResourceError reports whether this process or machine has no file descriptor, port or memory left for a check.
// Such an error says nothing about the app. Requests at this node fail for the same reason, so their connections
// end, and the kernel frees their ports within a minute. After that, a check reaches the app or fails for a
// different reason, so a dead app eventually becomes unhealthy.
func isResourceError(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// logSkipped logs, at most once in skipLogEvery, that a check was not possible because this node lacks resources
// such as file descriptors. The result of the last check remains valid.
func (c *Checker) logSkipped(err error) {
	if time.Since(c.warnedAt) < skipLogEvery {
		return
	}
	c.warnedAt = time.Now()
	c.log.Warn().Err(err).Msg("app check skipped: resources exhausted")
}

// updateReport updates the result of Report after a check that returned err.
func (c *Checker) updateReport(err error) {
	c.report.Store(&ack.AppHealth{
		Failing: err != nil, Refused: Refused(err), Starting: !c.hasSucceeded, FlapCount: c.falls.Count(time.Since(c.startedAt)),
	})
}

// apply updates the health of the app after a check that returned err.
func (c *Checker) apply(set Settings, err error) {
	if isResourceError(err) && c.healthy.Load() { // the error says nothing about the app
		c.logSkipped(err)
		return
	}
	c.lastError.Store(nil)
	if err != nil {
		text := logsafe.OneLine(err.Error())
		c.lastError.Store(&text)
		c.successes, c.failures = 0, c.failures+1
	} else {
		c.successes, c.failures, c.hasSucceeded = c.successes+1, 0, true
	}
	c.updateReport(err)
	isFirstCheck := !c.checked.Swap(true)
	if c.healthy.Load() {
		isHeld := c.isHeld(set, err)
		if c.failures >= set.Fall && !isHeld {
			c.becomeUnhealthy(err)
			return
		}
	} else if c.successes >= set.Rise {
		c.healthy.Store(true)
		c.log.Info().Msg("app healthy")
		c.onChange()
		return
	}
	if isFirstCheck && err != nil {
		c.log.Warn().Err(err).Str("effect", "this node gets no shards until the app responds").Msg("app not reachable yet")
	}
}

// becomeUnhealthy makes the app unhealthy after a check that returned err.
func (c *Checker) becomeUnhealthy(err error) {
	c.falls.Add(time.Since(c.startedAt))
	c.updateReport(err)
	c.healthy.Store(false)
	c.log.Warn().Err(err).Msg("app unhealthy")
	c.onChange()
}
