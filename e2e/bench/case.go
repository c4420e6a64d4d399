//go:build linux

package main

import (
	"fmt"
	"strings"
)

// pace is the rate of the slow cases, in requests a second.
const pace = 2000

// keyCount is the number of keys in use.
const keyCount = 10_000

// testCase is what wrk does.
type testCase struct {
	hops  int
	conns int
	size  int // of the answer's body
	rate  int // requests a second; 0: as many as go
}

// String is what -only is matched against.
func (c testCase) String() string {
	hops, rate := "one hop", "full speed"
	if c.hops == 2 {
		hops = "two hops"
	}
	if c.rate > 0 {
		rate = fmt.Sprintf("%d/s", c.rate)
	}
	return fmt.Sprintf("%s, %d B, %d connections, %s", hops, c.size, c.conns, rate)
}

func (c testCase) slug() string {
	return strings.NewReplacer(", ", "-", " ", "-", "/", "-").Replace(c.String())
}

// bar is how much of nginx's CPU time ours may take.
func (c testCase) bar() float64 {
	switch {
	case c.rate > 0:
		return 2.0
	case c.hops == 2:
		return 1.25
	}
	return 1.30
}

func cases() []testCase {
	var all []testCase
	for _, hops := range []int{1, 2} {
		for _, rate := range []int{0, pace} {
			for _, size := range sizes {
				for _, conns := range []int{64, 256} {
					all = append(all, testCase{hops: hops, conns: conns, size: size, rate: rate})
				}
			}
		}
	}
	return all
}
