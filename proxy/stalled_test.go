package proxy_test

import (
	"bufio"
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"

	"shardway/shardmap"
)

func TestStalledReturnsNodesOfOldRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := newSim(t)
		next := make(chan struct{})
		slow := func(conn net.Conn, r *bufio.Reader) {
			for {
				if _, err := readHead(r); err != nil {
					return
				}
				<-next
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			}
		}
		defer close(next)
		owner := simNode(t, sim, "owner", slow)
		ingress := simNode(t, sim, "ingress", slow)
		ingress.knows("owner", owner)
		ingress.swap(1, 1, remote("owner", 1))
		want := func(when string, nodes ...string) {
			t.Helper()
			synctest.Wait()
			if got := ingress.Stalled(); !slices.Equal(got, nodes) {
				t.Errorf("%s: Stalled() = %q, want %q", when, got, nodes)
			}
		}
		want("without requests")
		first, second := ingress.dial(), ingress.dial()
		const request = "GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n"
		first.send(request)
		want("a new request")
		second.send(request)
		want("one older", "owner")
		want("two older", "owner")
		next <- struct{}{}
		next <- struct{}{}
		first.answer("GET")
		second.answer("GET")
		want("answered")
		first.send(request)
		want("a new one on an old connection")
		want("grown old", "owner")
		if got := owner.Stalled(); got != nil {
			t.Errorf("the owner names %q: what runs at home is not forwarded", got)
		}
		ingress.swap(2, 2, local(2)) // before the request is cancelled, so that it is sent again here
		if n := ingress.CancelForwarded(func(_ shardmap.Shard, node string) bool { return node == "owner" }); n != 1 {
			t.Errorf("Abandon() = %d, want 1", n)
		}
		want("at home")
		want("and old")
		next <- struct{}{} // the owner's response, for which no client waits
		next <- struct{}{}
		first.answer("GET")
		_, _ = first.Close(), second.Close()
	})
}
