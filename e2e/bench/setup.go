//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// setup is one path from wrk to the backend that is measured: its proxies and their processes.
type setup struct {
	name    string
	hops    int  // number of proxies on the path; a setup with 0 is part of every case without TLS
	usesTLS bool // between wrk and the first proxy
	// withMetricsAndLogs reports that the setup belongs only to the case about metrics and logs.
	withMetricsAndLogs bool
	target             string // the address to which wrk sends requests
	tlsTarget          string // the address with TLS; empty means that there is none
	processes          []*process
	adminAddrs         []string // addresses that serve profiles
	// startActivity starts an additional activity before a measurement. stop ends the activity after
	// the measurement. nil means none.
	startActivity func(context.Context) (stop func() error)
	// checkCounts is called after a measurement with its number of responses. It returns an error if
	// the node did not count or log them as it should. nil means no check.
	checkCounts func(ctx context.Context, requests int64) error
	// version is the version that the program reports.
	version string
}

// result is one measurement.
type result struct {
	cpuPerRequest time.Duration // CPU time of the processes of the setup
	rate          float64       // requests per second
	p50, p99      time.Duration
	rss           int64 // resident memory at the end, in bytes
	// p99Alone is p99 of the previous measurement, without the additional client. streamRate is the
	// measured rate of that client in bytes per second.
	p99Alone   time.Duration
	streamRate float64
}

// supports reports whether the setup is part of a case.
func (s *setup) supports(tc testCase) bool {
	return s.usesTLS == tc.usesTLS && s.withMetricsAndLogs == tc.withMetricsAndLogs && (s.hops == tc.hops || s.hops == 0)
}

// resourceUsage returns the resource usage of the setup: the sum over its processes.
func (s *setup) resourceUsage() (usage, error) {
	var sum usage
	for _, process := range s.processes {
		processUsage, err := usageOf(process.cmd.Process.Pid)
		if err != nil {
			return usage{}, fmt.Errorf("%s: %w", s.name, err)
		}
		sum.cpu += processUsage.cpu
		sum.rss += processUsage.rss
	}
	return sum, nil
}

// measure runs wrk once and returns the result. Its CPU time per request is that of the
// processes of the setup, without wrk.
func (s *setup) measure(ctx context.Context, load wrkRun) (result, error) {
	before, err := s.resourceUsage()
	if err != nil {
		return result{}, err
	}
	output, err := s.runWrk(ctx, load)
	if err != nil {
		return result{}, err
	}
	after, err := s.resourceUsage()
	if err != nil {
		return result{}, err
	}
	if s.checkCounts != nil {
		if err := s.checkCounts(ctx, output.Requests); err != nil {
			return result{}, err
		}
	}
	return result{
		cpuPerRequest: (after.cpu - before.cpu) / time.Duration(output.Requests),
		rate:          float64(output.Requests) / (float64(output.Micros) / 1e6),
		p50:           time.Duration(output.P50) * time.Microsecond,
		p99:           time.Duration(output.P99) * time.Microsecond,
		rss:           after.rss,
	}, nil
}

// runWrk runs wrk together with the additional activity of the setup, if there is one.
func (s *setup) runWrk(ctx context.Context, load wrkRun) (wrkResult, error) {
	if s.startActivity == nil {
		return load.run(ctx)
	}
	stop := s.startActivity(ctx)
	output, err := load.run(ctx)
	return output, errors.Join(err, stop())
}
