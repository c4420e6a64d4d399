package peer

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Log lines about unknown peers are limited in number and length. Once, a peer with different names of
// 60 KB in each certificate filled the log with 80 MB in 3 s, because every text was new and none was
// limited.
func TestRefusalsOfStrangersAreFewAndShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ll logLimiter
		stranger := addr("10.1.0.1:9")
		logged := 0
		for range 10 {
			for i := range 1000 {
				if text := fmt.Sprintf("%d %s", i, strings.Repeat("é", 30_000)); ll.allow(stranger, &Options{}, text) {
					logged += len(truncate(text))
				}
			}
			time.Sleep(repeatLogInterval / 10)
		}
		if most := maxTextsPerSource * (maxLoggedLen + 3); logged == 0 || logged > most {
			t.Errorf("%d bytes were logged in a minute, want at most %d", logged, most)
		}
		if n := ll.takeSuppressed(); n != 10_000-maxTextsPerSource {
			t.Errorf("%d were left out, want %d", n, 10_000-maxTextsPerSource)
		}
		if n := ll.takeSuppressed(); n != 0 {
			t.Errorf("%d were left out, want none counted twice", n)
		}
		if !ll.allow(stranger, &Options{}, "another") || ll.allow(stranger, &Options{}, "another") {
			t.Error("a minute later a refusal is not logged, or twice")
		}
	})
}

func addr(s string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(s)) }

// The log limit is separate for each peer. Once, the lines about one peer used up the limit of all:
// while an unknown peer connected, the log did not contain why a node was refused.
func TestLogLimitsAreSeparateForEachPeer(t *testing.T) {
	var ll logLimiter
	o := &Options{IsNodeAddr: func(a netip.Addr) bool { return a.As4()[1] == 0 }}
	fill := func(from string) (logged int) {
		for i := range 1000 {
			if ll.allow(addr(from), o, fmt.Sprintf("%s %d", from, i)) {
				logged++
			}
		}
		return logged
	}
	for _, c := range []struct {
		from string
		want int
	}{
		{"10.1.0.1:1", maxTextsPerSource}, {"10.1.0.2:1", 0}, // unknown peers share a limit
		{"10.0.0.1:1", maxTextsPerSource}, {"10.0.0.2:1", maxTextsPerSource}, {"10.0.0.2:2", 0},
	} {
		if got := fill(c.from); got != c.want {
			t.Errorf("%d lines about %s, want %d", got, c.from, c.want)
		}
	}
	if !ll.allow(nil, o, "no descriptors") {
		t.Error("an error of this node itself is not logged")
	}
}
