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
	c, network := startInNamespaces(t, "--dead-after", "30s", "--queue-wait", "1m")
	leader := c.Leader(t)
	ingress, owner := c.Others(leader)[0], c.Others(leader)[1]
	key := c.AwaitServing(t).Keys(owner.ID, 1)[0]
	ask := func(at *cluster.Node, method, gate string) *cluster.AsyncRequest {
		req := load.Request{Key: key, Method: method, Timeout: 2 * time.Minute}
		if gate != "" {
			req.Header = map[string]string{"App-Hang": gate}
		}
		return c.SendAsync(t, at, req)
	}
	deaf := func() int {
		return int(c.Sum(t, []*cluster.Node{ingress, leader}, "shardway_aborted_requests_total", `reason="deaf-path"`))
	}
	for _, method := range []string{"GET", "POST", "GET"} { // opens connections
		if resp := ask(ingress, method, "").Response(t); !resp.OK() {
			t.Fatalf("%s before: %+v", method, resp)
		}
	}
	// An owner with a slow app does not count as unreachable.
	slow := ask(leader, "POST", "slow")
	owner.App.AwaitHanging(t, "slow", 1)

	endFault := owner.RecordFault(history.Unreachable)
	must(t, network.Block(hostIndex(ingress), hostIndex(owner)))
	startedAt := time.Now()
	get := ask(ingress, "GET", "")
	cluster.Await(t, "the path is found dead", func() error {
		if deaf() == 0 {
			return errNotYet
		}
		return nil
	})
	t.Logf("requests lost: found after %v", time.Since(startedAt))
	must(t, network.Heal())
	endFault()
	if resp := get.Response(t); !resp.OK() {
		t.Errorf("GET over a path that was dead: %d %s %s", resp.Status, resp.Error, resp.Detail)
	}

	before := deaf()
	get, post := ask(ingress, "GET", "back"), ask(ingress, "POST", "back")
	owner.App.AwaitHanging(t, "back", 2)
	host := network.Host(hostIndex(ingress))
	cluster.Await(t, "nothing is on its way to the owner", func() error {
		ss := host.Command("ss", "-Htni", "dst", network.Host(hostIndex(owner)).Data)
		out, err := exec.CommandContext(t.Context(), ss[0], ss[1:]...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ss: %w %s", err, out)
		}
		if strings.Contains(string(out), "unacked:") {
			return errNotYet
		}
		return nil
	})
	endFault = owner.RecordFault(history.Unreachable)
	must(t, network.Block(hostIndex(owner), hostIndex(ingress)))
	startedAt = time.Now()
	owner.App.Release(t, "back")
	if resp := post.Response(t); resp.Status != http.StatusBadGateway || resp.Error != "peer-unreachable" || !strings.Contains(resp.Detail, "may have run") {
		t.Errorf("POST whose answer is lost: %d %s %s, want 502 peer-unreachable", resp.Status, resp.Error, resp.Detail)
	}
	t.Logf("lost responses were detected after %v", time.Since(startedAt))
	cluster.Await(t, "both were cut", func() error {
		if deaf() < before+2 {
			return errNotYet
		}
		return nil
	})
	must(t, network.Heal())
	endFault()
	if resp := get.Response(t); !resp.OK() {
		t.Errorf("GET whose answer was lost: %d %s %s", resp.Status, resp.Error, resp.Detail)
	}
	owner.App.Release(t, "slow")
	if resp := slow.Response(t); !resp.OK() {
		t.Errorf("the slow POST: %d %s %s", resp.Status, resp.Error, resp.Detail)
	}
	c.Check(t)
}
