//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// line is one way from wrk to the backend.
type line struct {
	name string
	hops int // 0: direct, in every case without TLS
	tls  bool
	// observed is a line of the case that is about observing, and of no other.
	observed bool
	target   string
	sealed   string // the same with TLS in front; empty: another line has it, or none
	procs    []*process
	pprof    []string // addresses that give profiles
	// during begins what goes on while the line is measured, until it is stopped. Nil: nothing does.
	during func(context.Context) (stop func() error)
	// check is told after a measurement how many requests were answered in it, and says whether
	// the line is what its name says. Nil: nobody asks.
	check func(ctx context.Context, requests int64) error
	// version is what the program says of itself.
	version string
}

// result is one measurement.
type result struct {
	perRequest time.Duration // CPU of the line's processes
	rate       float64       // requests a second
	p50, p99   time.Duration
	rss        int64 // at the end
	// alone is p99 right before, without the further client of such a case, and streamed how
	// many bytes a second that one moved.
	alone    time.Duration
	streamed float64
}

// plays reports whether the line is one of a case.
func (l *line) plays(c testCase) bool {
	return l.tls == c.tls && l.observed == c.observed && (l.hops == c.hops || l.hops == 0)
}

// use adds up the line's processes.
func (l *line) use() (usage, error) {
	var sum usage
	for _, p := range l.procs {
		u, err := use(p.cmd.Process.Pid)
		if err != nil {
			return usage{}, fmt.Errorf("%s: %w", l.name, err)
		}
		sum.cpu += u.cpu
		sum.rss += u.rss
	}
	return sum, nil
}

// measure runs wrk once.
func (l *line) measure(ctx context.Context, w wrk) (result, error) {
	before, err := l.use()
	if err != nil {
		return result{}, err
	}
	done, err := l.run(ctx, w)
	if err != nil {
		return result{}, err
	}
	after, err := l.use()
	if err != nil {
		return result{}, err
	}
	if l.check != nil {
		if err := l.check(ctx, done.Requests); err != nil {
			return result{}, err
		}
	}
	return result{
		perRequest: (after.cpu - before.cpu) / time.Duration(done.Requests),
		rate:       float64(done.Requests) / (float64(done.Micros) / 1e6),
		p50:        time.Duration(done.P50) * time.Microsecond,
		p99:        time.Duration(done.P99) * time.Microsecond,
		rss:        after.rss,
	}, nil
}

// run runs wrk, with what goes on meanwhile.
func (l *line) run(ctx context.Context, w wrk) (wrkDone, error) {
	if l.during == nil {
		return w.run(ctx)
	}
	stop := l.during(ctx)
	done, err := w.run(ctx)
	return done, errors.Join(err, stop())
}
