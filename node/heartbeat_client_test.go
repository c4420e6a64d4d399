package node_test

import (
	"testing"
	"time"

	"shardway/internal/simnet"
)

// What carries heartbeats may break right as one is on its way: streams of a secret that was
// replaced end at all nodes at once. The next one left after up to 97 ms, and a leader that owed
// most voters an answer for 80 could be replaced for that.
func TestHeartbeatThatIsLostWithItsConnectionIsSentAgain(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		w.links(simnet.Link{Latency: time.Millisecond})
		l := w.leader()
		time.Sleep(5 * time.Second)
		term := l.node.Term()
		for i := range 60 {
			time.Sleep(time.Second + time.Duration(2*i)*time.Millisecond)
			before := map[string]int64{}
			for _, f := range w.others(l) {
				w.net.Reset(f, l.name)
				before[f] = w.all[f].node.Answered()
			}
			w.net.Heal()
			time.Sleep(20 * time.Millisecond)
			for f, n := range before {
				if w.all[f].node.Answered() == n {
					w.t.Errorf("20 ms after its connection broke, for the %dth time, %s has no answer to another heartbeat", i+1, f)
				}
			}
		}
		if got := l.node.Term(); got != term {
			w.t.Errorf("it was replaced: term %d, was %d", got, term)
		}
	})
}
