package node_test

import (
	"net"
	"testing"

	"shardway/diagnosis"
	"shardway/node"
)

// TestNewNodeReportsItsUnreachablePeerPort starts a node that announces a port at which nothing
// listens. The node, the leader and the other nodes say why it is not added.
func TestNewNodeReportsItsUnreachablePeerPort(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.tune = func(o *node.Options) { o.Endpoints["peer"] = hostOf(o.Endpoints["peer"]) + ":9" }
		w.start("d")
		d := w.all["d"]
		at := d.host.Addr(9)
		for _, name := range w.others(d) {
			w.untilFindingsAre(w.all[name], "peer-port-unreachable: node d is not added to the cluster: node "+w.leader().name+" does not reach its peer port at "+at+": ", "refused", "--peer-advertise")
		}
		w.untilFindingsAre(d, "peer-port-unreachable: node d is not added to the cluster: node ", " does not reach its peer port at "+at+": ", "refused", "--peer-advertise")
		if e := d.node.Findings(); diagnosis.Worst(e) != diagnosis.Outage {
			t.Errorf("%v, want an outage", e)
		}
		d.kill()
		w.untilFindingsAre(w.leader())
		w.tune = nil
		d.restart()
		w.untilSettled("a", "b", "c", "d")
		w.untilFindingsAre(d)
	})
}

func hostOf(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		panic(err)
	}
	return host
}
