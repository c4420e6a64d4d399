package node_test

import (
	"slices"
	"testing"
	"time"

	"shardway/admin/api"
	"shardway/diagnosis"
)

// findsNone looks for so long that no running node finds one of these.
func (w *world) findsNone(d time.Duration, codes ...diagnosis.Code) {
	w.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		for _, p := range w.running() {
			for _, f := range p.node.Findings() {
				if slices.Contains(codes, f.Code) {
					w.t.Fatalf("%s says %s", p.name, f)
				}
			}
		}
	}
}

// Who is not heard for less than a second is no finding. A node that asked the leader
// meanwhile went by that answer until it asked again, and warned that the loss of one more
// stops the cluster.
func TestBrieflyAbsentNodeIsNotReported(t *testing.T) {
	t.Parallel()
	for _, leads := range []bool{true, false} {
		three(t, func(w *world) {
			w.untilVoters(3)
			for i := range 10 {
				time.Sleep(15*time.Second + time.Duration(i)*400*time.Millisecond)
				end := w.hang(w.voter(leads), "isolated")
				time.Sleep(700 * time.Millisecond)
				end()
				w.findsNone(6*time.Second, diagnosis.NoFaultTolerance, diagnosis.NoQuorum)
				w.untilSettled("a", "b", "c")
			}
		})
	}
}

// A node that goes by the map of a moment before is not behind. Who asked the leader just
// before a map was committed went by that answer until it asked again, and warned that all
// others do not follow.
func TestNoNodeLagsBehindAMapThatIsNew(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		for i := range 10 {
			time.Sleep(15*time.Second + time.Duration(i)*400*time.Millisecond)
			epoch := w.committed().Epoch()
			w.asks(w.leader(), api.Action{Verb: api.Pin, Shard: 1, Node: []string{"a", "b", "c"}[i%3]})
			w.findsNone(6*time.Second, diagnosis.Lagging)
			if i > 1 && w.committed().Epoch() == epoch {
				w.t.Fatal("nothing has moved")
			}
		}
	})
}
