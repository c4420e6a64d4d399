package node

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
)

// Health says how often the app is checked, and what counts.
type Health struct {
	// Interval is the time between two checks, a tenth more or less so that not all
	// nodes ask what is behind their apps in step. Timeout bounds one check.
	Interval, Timeout time.Duration
	// Fall is the number of failed checks in a row that make an app unhealthy, Rise
	// that of good ones that make it healthy again.
	Fall, Rise int
	// Hold is for how long an app that refuses connections is waited for, because it
	// restarts perhaps, once in holdEvery; zero: it is not.
	Hold time.Duration
}

// DefaultHealth returns the defaults of the settings.
func DefaultHealth() Health {
	return Health{Interval: 500 * time.Millisecond, Timeout: 2 * time.Second, Fall: 3, Rise: 1}
}

// holdEvery is how often an app may be waited for.
const holdEvery = time.Minute

// skipLogEvery is how often at most it is logged that checks are skipped.
const skipLogEvery = time.Minute

// askedEvery is the shortest time between two checks that a refused connection asks
// for.
const askedEvery = 100 * time.Millisecond

// health watches the app behind this node. Until the first good check the app
// counts as unhealthy: a node whose app is not up is given no shards.
type health struct {
	check func(ctx context.Context) error
	log   zerolog.Logger
	set   atomic.Pointer[Health]
	good  atomic.Bool
	known atomic.Bool
	broke atomic.Pointer[string] // what the last check failed with; nil: nothing
	says  atomic.Pointer[ack.AppHealth]
	turn  func()        // told after good has changed
	asked chan struct{} // cap 1: a connection was refused
	pulse *clock.Pulse
	ticks *clock.Beat // when a check is due; run's

	rose, failed int             // good and failed checks in a row; run's
	heldSince    time.Time       // when it was last begun to wait for the app; run's
	everGood     bool            // a check has been good; run's
	falls        ack.FlapCounter // times the app became unhealthy; run's
	began        time.Time       // what falls are counted from
	warned       time.Time       // when a check was last skipped because file descriptors were missing; run's
}

func newHealth(check func(context.Context) error, set Health, pulse *clock.Pulse, log zerolog.Logger, turn func()) *health {
	h := &health{check: check, log: log, turn: turn, began: time.Now(), asked: make(chan struct{}, 1), pulse: pulse}
	h.set.Store(&set)
	h.says.Store(&ack.AppHealth{Starting: true})
	return h
}

func (h *health) run(ctx context.Context) {
	h.ticks = h.pulse.Asked()
	defer h.ticks.Stop()
	for {
		began, set := time.Now(), *h.set.Load()
		err := h.once(ctx, set.Timeout)
		if ctx.Err() != nil {
			return
		}
		h.judge(set, err)
		if !h.rest(ctx, began, set.Interval) {
			return
		}
	}
}

func (h *health) once(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return h.check(ctx)
}

// rest waits until the next check is due, counted from the begin of the one before, or a little
// less, if something else wakes this node then; false if ctx ends.
func (h *health) rest(ctx context.Context, began time.Time, every time.Duration) bool {
	least := began.Add(every - every/10)
	due := least.Add(every/20 + rand.N(every/7+1)) //nolint:gosec // only to be out of step
	for {
		h.ticks.Within(time.Until(due))
		select {
		case <-ctx.Done():
			return false
		case <-h.ticks.C:
			if !time.Now().Before(least) { // else it is of a wait before this one
				return true
			}
		case <-h.asked:
			if soon := began.Add(askedEvery); soon.Before(due) {
				due, least = soon, soon
			}
		}
	}
}

// ask has the app checked soon, because it refused a connection.
func (h *health) ask() {
	select {
	case h.asked <- struct{}{}:
	default:
	}
}

// seen is dial, and asks for a check when the app refuses a connection.
func (h *health) seen(dial func(context.Context) (net.Conn, error)) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		c, err := dial(ctx)
		if refuses(err) {
			h.ask()
		}
		return c, err
	}
}

// appHealth is what the node's heartbeats say of its app beside whether it is healthy.
func (n *Node) appHealth() ack.AppHealth {
	if n.health == nil {
		return ack.AppHealth{}
	}
	return *n.health.says.Load()
}

// refuses reports that nobody listens at the app's address; ENOENT is a Unix socket's.
func refuses(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT)
}

// holds reports that an app that has failed a check is waited for.
func (h *health) holds(set Health, err error) bool {
	if set.Hold <= 0 || !refuses(err) {
		return false
	}
	if time.Since(h.heldSince) >= holdEvery { // or never
		h.heldSince = time.Now()
		h.log.Warn().Err(err).Dur("grace", set.Hold).Msg("app refuses connections, requests queued")
	}
	return time.Since(h.heldSince) < set.Hold
}

// why says what the last check failed with, empty if it did not.
func (h *health) why() string {
	if p := h.broke.Load(); p != nil {
		return *p
	}
	return ""
}

// exhausted reports that this process or machine has no file descriptor, port or memory left for
// a check. The result says nothing about the app. Requests fail for the same cause at this node, so
// their connections end, and the kernel frees their ports within a minute. After that a check reaches
// the app again, or fails for another cause. So an app that has ended becomes unhealthy at last.
func exhausted(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// skip logs, once a minute, that a check could not be made, and keeps the last result.
func (h *health) skip(err error) {
	if time.Since(h.warned) < skipLogEvery {
		return
	}
	h.warned = time.Now()
	h.log.Warn().Err(err).Msg("app check skipped: resources exhausted")
}

// report publishes what the heartbeats say of the app beside whether it is healthy.
func (h *health) report(err error) {
	h.says.Store(&ack.AppHealth{
		Failing: err != nil, Refused: refuses(err), Starting: !h.everGood, Falls: h.falls.Count(time.Since(h.began)),
	})
}

func (h *health) judge(set Health, err error) {
	if exhausted(err) && h.good.Load() {
		h.skip(err)
		return
	}
	h.broke.Store(nil)
	if err != nil {
		why := brief(err.Error())
		h.broke.Store(&why)
		h.rose, h.failed = 0, h.failed+1
	} else {
		h.rose, h.failed, h.everGood = h.rose+1, 0, true
	}
	h.report(err)
	first, good := !h.known.Swap(true), h.good.Load()
	held := good && h.holds(set, err)
	switch {
	case h.rose >= set.Rise && !good:
		h.good.Store(true)
		h.log.Info().Msg("app healthy")
		h.turn()
	case h.failed >= set.Fall && good && !held:
		h.falls.Add(time.Since(h.began))
		h.report(err)
		h.good.Store(false)
		h.log.Warn().Err(err).Msg("app unhealthy")
		h.turn()
	case first && err != nil:
		h.log.Warn().Err(err).Str("effect", "this node gets no shards until the app responds").Msg("app not reachable yet")
	}
}
