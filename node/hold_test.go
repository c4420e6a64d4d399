package node_test

import (
	"net/http"
	"testing"
	"time"

	"shardway/ack"
	"shardway/e2e/kit/history"
	"shardway/shardmap"
)

// A node that restarts in place accepts no new clients and reports that it is not ready. Once, it reported ready all the time, and a load
// balancer sent clients to a closed port. After drain-timeout it reported the aborted requests as upstream-broken, as if its app were the
// cause.
func TestRestartInPlaceReportsThatItStops(t *testing.T) {
	bubble(t, func(w *world) {
		s := newStorm(w, 1, ack.TakeoverLease)
		s.load = 0
		for _, name := range []string{"a", "b", "c"} {
			s.add(name, trait{weight: 1, rate: 1, expect: 3, holds: true})
		}
		s.until("the cluster is there", s.whole)
		p, other := w.all["b"], w.all["c"]
		var sh shardmap.Shard
		for w.committed().Owner(sh) != shardmap.NodeID(p.name) {
			sh++
		}
		var told history.Response
		s.c.send(other, sh, http.MethodPost, time.Minute, func(a history.Response) { told = a })
		s.c.send(p, sh, http.MethodPost, 2*time.Second, nil) // the open connection of its own client
		time.Sleep(100 * time.Millisecond)
		p.stop()
		time.Sleep(100 * time.Millisecond)
		if p.ended() || p.node.API().Ready() == nil || p.node.API().Status().State != "stopping" {
			w.t.Errorf("ended %v, ready: %v, %s", p.ended(), p.node.API().Ready(), p.node.API().Status().State)
		}
		s.within(patience, "it is answered", func() bool { return s.c.wait.Load() == 0 })
		if told.Status != http.StatusBadGateway || told.Error != "shard-moved" {
			w.t.Errorf("answer = %d %s %s", told.Status, told.Error, told.Detail)
		}
		s.within(time.Minute, "it ends", p.ended)
	})
}
