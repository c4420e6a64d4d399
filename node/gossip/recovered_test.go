package gossip_test

import (
	"fmt"
	"testing"
	"time"

	"shardway/node/clusterid"
)

// A node returns and finds some nodes of its old cluster, enough to serve with them, although the cluster was recovered without them. Its
// first round of joins meets the recovered cluster. Once, it stopped its search as soon as it saw a node, and met the recovered cluster
// seconds or half a minute later.
func TestFirstRoundMeetsTheRecoveredCluster(t *testing.T) {
	bubble(t, func(s *swarm) {
		former := clusterid.New()
		var join []string
		for _, name := range []string{"b", "c", "d"} {
			join = append(join, s.add(name, inCluster(name, former), join...).host.Addr(port))
		}
		join = append(join, s.add("recovered", inCluster("recovered", clusterid.Recovered(former, 1<<40))).host.Addr(port))
		for i := range 6 { // the order of the addresses is random
			name := fmt.Sprint("late", i)
			late := s.add(name, inCluster(name, former), join...)
			began := time.Now()
			if r := <-late.Refusals(); !r.Superseded {
				s.t.Errorf("refusal %v", r)
			}
			if took := time.Since(began); took > time.Second { // virtual time; the next round is later
				s.t.Errorf("%s met the recovered cluster after %v", name, took)
			}
			late.host.Crash()
			late.stop()
		}
	})
}
