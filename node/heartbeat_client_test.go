package node_test

import (
	"testing"
	"time"

	"shardway/internal/simnet"
)

// A heartbeat that is lost with its connection is sent again at once: all nodes close the streams of a replaced secret at the same time.
// Once, the next heartbeat followed after up to 97 ms, and a leader whose answers to most voters were 80 ms late could be replaced.
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
