//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// line is one setup under test: the path from wrk to the backend, and the processes on it.
type line struct {
	name string
	hops int // proxies on the path; the line with 0 is part of every case without TLS
	tls  bool
	// observed reports that the line belongs only to the case about metrics and logs.
	observed bool
	target   string
	sealed   string // the address with TLS; empty means that there is none
	procs    []*process
	pprof    []string // addresses that serve profiles
	// during starts an additional activity before a measurement. stop ends the activity after
	// the measurement. nil means none.
	during func(context.Context) (stop func() error)
	// check is called after a measurement with its number of responses. It returns an error if
	// the node did not count or log them as it should. nil means no check.
	check func(ctx context.Context, requests int64) error
	// version is the version that the program reports.
	version string
}

// result is one measurement.
type result struct {
	perRequest time.Duration // CPU time of the processes of the line
	rate       float64       // requests per second
	p50, p99   time.Duration
	rss        int64 // resident memory at the end, in bytes
	// alone is p99 of the measurement without the additional client, right before this one.
	// streamed is the measured rate of that client in bytes per second.
	alone    time.Duration
	streamed float64
}

// takesPart reports whether the line is part of a case.
func (l *line) takesPart(tc testCase) bool {
	return l.tls == tc.tls && l.observed == tc.observed && (l.hops == tc.hops || l.hops == 0)
}

// use returns the resource usage of the line: the sum over its processes.
func (l *line) use() (usage, error) {
	var sum usage
	for _, process := range l.procs {
		u, err := use(process.cmd.Process.Pid)
		if err != nil {
			return usage{}, fmt.Errorf("%s: %w", l.name, err)
		}
		sum.cpu += u.cpu
		sum.rss += u.rss
	}
	return sum, nil
}

// measure runs wrk once and returns the result. Its CPU time per request is that of the
// processes of the line, without wrk.
func (l *line) measure(ctx context.Context, load wrk) (result, error) {
	before, err := l.use()
	if err != nil {
		return result{}, err
	}
	done, err := l.run(ctx, load)
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

// run runs wrk together with the additional activity of the line, if there is one.
func (l *line) run(ctx context.Context, load wrk) (wrkDone, error) {
	if l.during == nil {
		return load.run(ctx)
	}
	stop := l.during(ctx)
	done, err := load.run(ctx)
	return done, errors.Join(err, stop())
}
