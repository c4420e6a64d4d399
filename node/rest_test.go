package node_test

import (
	"bytes"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/node"
)

// lapses counts the expired leases that a log reports.
type lapses struct{ n atomic.Int64 }

func (l *lapses) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("lease expired")) {
		l.n.Add(1)
	}
	return len(b), nil
}

// However short the lease is, no idle node wakes so late that its own sleep counts as a pause.
func TestNoLeaseLapsesAtRest(t *testing.T) {
	t.Parallel()
	for _, lease := range []time.Duration{100 * time.Millisecond, 150 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond} {
		bubble(t, func(w *world) {
			var all lapses
			w.tune = func(o *node.Options) {
				o.Timing = ack.Timing{Lease: lease, DeadAfter: 5 * lease, Takeover: ack.TakeoverLease, RebalanceMode: ack.RebalanceIncremental}
				o.Pace.Heartbeat = lease / 4
				o.Log = zerolog.New(&all)
			}
			names := []string{"a", "b", "c", "d", "e", "f"}
			for _, n := range names {
				w.start(n)
			}
			w.untilSettled(names...)
			time.Sleep(20 * time.Second)
			before := all.n.Load()
			time.Sleep(time.Duration(share(60, 15)) * time.Second)
			if n := all.n.Load() - before; n > 0 {
				w.t.Errorf("lease %v: %d leases lapsed without requests", lease, n)
			}
		})
	}
}
