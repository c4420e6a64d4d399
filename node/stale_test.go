package node_test

import (
	"slices"
	"testing"
	"time"

	"shardway/admin/api"
	"shardway/diagnosis"
)

// findsNone checks during d that no running node has a finding with one of the codes.
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

// A gap of less than a second in a node's heartbeats is no finding. Once, a node that had queried the leader in that time used that answer
// until its next query, and warned that the loss of one more node stops the cluster.
func TestBrieflyAbsentNodeIsNotReported(t *testing.T) {
	t.Parallel()
	for _, leads := range []bool{true, false} {
		three(t, func(w *world) {
			w.untilVoters(3)
			for i := range share(10, 2) {
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

// A node that uses a map that was current a moment ago is not behind. Once, a node that had queried the leader just before a commit used
// that answer until its next query, and warned that no other node follows.
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
