package logs_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"shardway/node/logs"
)

// Each peer has its own limit. Once, the limit of one line a second applied to all peers together, and a misbehaving node hid why the
// others were refused.
func TestOnePeerDoesNotHideTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s logs.PeerLimiter
		passed := map[string]int{}
		for range 30 { // 3 s
			for range 100 {
				for _, peer := range []string{"a", "b"} {
					if s.Pass(peer) {
						passed[peer]++
					}
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
		if passed["a"] != 3 || passed["b"] != 3 {
			t.Errorf("in 3 s passed %v, want one a second of each", passed)
		}
		time.Sleep(time.Second)
		n := 0
		for i := range 10_000 {
			if s.Pass(strconv.Itoa(i)) {
				n++
			}
		}
		if n > 300 {
			t.Errorf("%d lines of as many names in one moment", n)
		}
	})
}
