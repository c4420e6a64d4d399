//go:build linux

package main

import (
	"fmt"
	"strings"
)

// limitedRate is the rate of the cases with a limited rate, in requests per second.
const limitedRate = 2000

// keyCount is the number of keys in use.
const keyCount = 10_000

// testCase is one kind of load. All setups that support it are measured and compared.
type testCase struct {
	hops     int  // number of proxies between wrk and the backend
	conns    int  // number of connections of wrk
	size     int  // of the response body
	rate     int  // requests per second; 0 means no limit
	newConns bool // one connection per request
	usesTLS  bool // between wrk and the setup
	// withMetricsAndLogs selects the setups that show the cost of metrics and logs.
	withMetricsAndLogs bool
	// stream is the direction in which an additional client streams; zero means no such client. Right
	// before such a case, the same load is measured without this client.
	stream streamDirection
}

// String returns the name that -only matches.
func (c testCase) String() string {
	hops, rate := "one hop", "full speed"
	if c.hops == 2 {
		hops = "two hops"
	}
	if c.rate > 0 {
		rate = fmt.Sprintf("%d/s", c.rate)
	}
	text := fmt.Sprintf("%s, %d B, %d connections, %s", hops, c.size, c.conns, rate)
	if c.newConns {
		text += ", new connections"
	}
	if c.usesTLS {
		text += ", TLS in front"
	}
	if c.withMetricsAndLogs {
		text += ", observed"
	}
	if c.stream != 0 {
		text += ", " + c.stream.String()
	}
	return text
}

func (c testCase) slug() string {
	return strings.NewReplacer(", ", "-", " ", "-", "/", "-").Replace(c.String())
}

// maxRatio returns the goal of the project for the CPU time of a node, as a multiple of the
// CPU time of nginx. The table shows it next to the measured ratio.
func (c testCase) maxRatio() float64 {
	switch {
	case c.rate > 0:
		return 2.0
	case c.hops == 2:
		return 1.25
	}
	return 1.30
}

// cases returns all cases: with one and two hops, each with full and limited load, then load next to a long stream,
// and then new connections, TLS and observed nodes.
func cases() []testCase {
	var all []testCase
	for _, hops := range []int{1, 2} {
		for _, rate := range []int{0, limitedRate} {
			for _, size := range []int{smallBody, mediumBody} {
				for _, conns := range []int{64, 256} {
					all = append(all, testCase{hops: hops, conns: conns, size: size, rate: rate})
				}
			}
		}
		all = append(all, testCase{hops: hops, conns: 16, size: largeBody})
	}
	for _, rate := range []int{limitedRate, 0} {
		for _, beside := range []streamDirection{streamReads, streamWrites} {
			all = append(all, testCase{hops: 2, conns: 64, size: smallBody, rate: rate, stream: beside})
		}
	}
	return append(all,
		testCase{hops: 1, conns: 64, size: smallBody, newConns: true},
		testCase{hops: 1, conns: 64, size: smallBody, usesTLS: true},
		testCase{hops: 1, conns: 64, size: mediumBody, usesTLS: true},
		testCase{hops: 1, conns: 16, size: largeBody, usesTLS: true},
		testCase{hops: 1, conns: 64, size: smallBody, newConns: true, usesTLS: true},
		testCase{hops: 1, conns: 64, size: smallBody, withMetricsAndLogs: true},
	)
}
