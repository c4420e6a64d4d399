package node_test

import (
	"slices"
	"testing"
	"time"

	"shardway/admin/api"
)

// The load of the cluster is queried once a second. Once, each client's request queried every node.
func TestLoadsAreAskedForOnceASecond(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		a := w.all["a"]
		ask := func() (list api.HotList, took time.Duration) {
			began := time.Now()
			list = a.node.API().Load.Hot(w.t.Context())
			return list, time.Since(began)
		}
		if l, _ := ask(); len(l.Unresponsive) > 0 {
			w.t.Errorf("%v are silent", l.Unresponsive)
		}
		w.net.Isolate("a")
		if l, took := ask(); len(l.Unresponsive) > 0 || took > 0 {
			w.t.Errorf("asked again: %v are silent after %v", l.Unresponsive, took)
		}
		time.Sleep(time.Second)
		if l, took := ask(); !slices.Equal(l.Unresponsive, []string{"b", "c"}) || took == 0 {
			w.t.Errorf("not asked again: %v are silent after %v", l.Unresponsive, took)
		}
		if l, took := ask(); !slices.Equal(l.Unresponsive, []string{"b", "c"}) || took > 0 {
			w.t.Errorf("asked again: %v are silent after %v", l.Unresponsive, took)
		}
	})
}
