//go:build linux

package main

import (
	"context"
	"fmt"
	"time"
)

// line is one way from wrk to the backend.
type line struct {
	name   string
	hops   int // 0: direct, in every case without TLS
	tls    bool
	target string
	sealed string // the same with TLS in front; empty: another line has it, or none
	procs  []*process
	pprof  []string // addresses that give profiles
	// version is what the program says of itself.
	version string
}

// result is one measurement.
type result struct {
	perRequest time.Duration // CPU of the line's processes
	rate       float64       // requests a second
	p50, p99   time.Duration
	rss        int64 // at the end
}

// plays reports whether the line is one of a case.
func (l *line) plays(c testCase) bool { return l.tls == c.tls && (l.hops == c.hops || l.hops == 0) }

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
	done, err := w.run(ctx)
	if err != nil {
		return result{}, err
	}
	after, err := l.use()
	if err != nil {
		return result{}, err
	}
	return result{
		perRequest: (after.cpu - before.cpu) / time.Duration(done.Requests),
		rate:       float64(done.Requests) / (float64(done.Micros) / 1e6),
		p50:        time.Duration(done.P50) * time.Microsecond,
		p99:        time.Duration(done.P99) * time.Microsecond,
		rss:        after.rss,
	}, nil
}
