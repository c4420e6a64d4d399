package node_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// absent returns the value of the metric for the time without a lease.
func (p *process) absent() time.Duration {
	p.w.t.Helper()
	r := prometheus.NewRegistry()
	if err := p.node.Register(r); err != nil {
		p.w.t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		p.w.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "shardway_lease_absent_seconds_total" {
			return time.Duration(f.GetMetric()[0].GetCounter().GetValue() * float64(time.Second))
		}
	}
	p.w.t.Fatal("there is no metric of the time without a lease")
	return 0
}

func TestTimeWithoutALeaseIsCounted(t *testing.T) {
	three(t, func(w *world) {
		w.untilVoters(3)
		p := w.follower()
		time.Sleep(time.Second)
		before := p.absent()
		time.Sleep(10 * time.Second)
		if got := p.absent(); got != before {
			w.t.Errorf("%v without a lease in quiet times, want none", got-before)
		}
		w.net.Isolate(p.name)
		// The time of the bubble is exact: a value measured in steps of 1 ms is within two steps.
		var want time.Duration
		const step = time.Millisecond
		for i := range 3000 {
			if i == 2000 {
				w.net.Heal()
			}
			if !p.node.Leased() {
				want += step
			}
			time.Sleep(step)
		}
		if want == 0 {
			w.t.Fatal("a node cut off for two seconds kept its lease")
		}
		if got := p.absent() - before; got < want-2*step || got > want+2*step {
			w.t.Errorf("%v without a lease, want %v", got, want)
		}
	})
}
