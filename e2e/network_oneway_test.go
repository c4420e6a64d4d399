//go:build linux

package e2e_test

import (
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
	"shardway/e2e/kit/load"
)

// TestOneWayPathFailureIsDetected drops the packets from an ingress to an owner, and then
// the packets in the other direction, while both reach the leader. Only requests between
// the two are affected. Once they waited for a TCP retransmission long after the path
// worked again.
func TestOneWayPathFailureIsDetected(t *testing.T) {
	t.Parallel() // it waits for timeouts most of the time
	// Neither a round nor a search for the process of the owner interferes.
	c, w := startInNamespaces(t, "--dead-after", "30s", "--queue-wait", "1m")
	leader := c.Leader(t)
	ingress, owner := c.Others(leader)[0], c.Others(leader)[1]
	key := c.AwaitServing(t).Keys(owner.ID, 1)[0]
	ask := func(at *cluster.Node, method, gate string) *cluster.AsyncRequest {
		r := load.Request{Key: key, Method: method, Timeout: 2 * time.Minute}
		if gate != "" {
			r.Header = map[string]string{"App-Hang": gate}
		}
		return c.SendAsync(t, at, r)
	}
	deaf := func() int {
		return int(c.Sum(t, []*cluster.Node{ingress, leader}, "shardway_aborted_requests_total", `reason="deaf-path"`))
	}
	for _, method := range []string{"GET", "POST", "GET"} { // opens connections
		if a := ask(ingress, method, "").Response(t); !a.OK() {
			t.Fatalf("%s before: %+v", method, a)
		}
	}
	// An owner with a slow app does not count as unreachable.
	slow := ask(leader, "POST", "slow")
	owner.App.AwaitHanging(t, "slow", 1)

	mended := owner.RecordFault(history.Unreachable)
	must(t, w.Block(index(ingress), index(owner)))
	began := time.Now()
	get := ask(ingress, "GET", "")
	cluster.Await(t, "the path is found dead", func() error {
		if deaf() == 0 {
			return errNotYet
		}
		return nil
	})
	t.Logf("requests lost: found after %v", time.Since(began))
	must(t, w.Heal())
	mended()
	if a := get.Response(t); !a.OK() {
		t.Errorf("GET over a path that was dead: %d %s %s", a.Status, a.Error, a.Detail)
	}

	before := deaf()
	get, post := ask(ingress, "GET", "back"), ask(ingress, "POST", "back")
	owner.App.AwaitHanging(t, "back", 2)
	host := w.Host(index(ingress))
	cluster.Await(t, "nothing is on its way to the owner", func() error {
		ss := host.Command("ss", "-Htni", "dst", w.Host(index(owner)).Data)
		out, err := exec.CommandContext(t.Context(), ss[0], ss[1:]...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ss: %w %s", err, out)
		}
		if strings.Contains(string(out), "unacked:") {
			return errNotYet
		}
		return nil
	})
	mended = owner.RecordFault(history.Unreachable)
	must(t, w.Block(index(owner), index(ingress)))
	began = time.Now()
	owner.App.Release(t, "back")
	if a := post.Response(t); a.Status != http.StatusBadGateway || a.Error != "peer-unreachable" || !strings.Contains(a.Detail, "may have run") {
		t.Errorf("POST whose answer is lost: %d %s %s, want 502 peer-unreachable", a.Status, a.Error, a.Detail)
	}
	t.Logf("answers lost: found after %v", time.Since(began))
	cluster.Await(t, "both were cut", func() error {
		if deaf() < before+2 {
			return errNotYet
		}
		return nil
	})
	must(t, w.Heal())
	mended()
	if a := get.Response(t); !a.OK() {
		t.Errorf("GET whose answer was lost: %d %s %s", a.Status, a.Error, a.Detail)
	}
	owner.App.Release(t, "slow")
	if a := slow.Response(t); !a.OK() {
		t.Errorf("the slow POST: %d %s %s", a.Status, a.Error, a.Detail)
	}
	c.Check(t)
}
