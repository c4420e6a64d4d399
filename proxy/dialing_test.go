package proxy_test

import (
	"context"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"shardway/proxy"
	"shardway/proxy/route"
)

// mute is a cluster in which one node accepts connections and sends nothing, like a paused process.
type mute struct {
	proxy.Cluster
	node string
}

func (m mute) Dial(ctx context.Context, node string) (net.Conn, error) {
	if node == m.node {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return m.Cluster.Dial(ctx, node)
}

// A dial to a paused node ends when the shard moves. Once, the request waited for the whole connect
// timeout, although the shard had long been taken over and was served for other requests.
func TestDialEndsWhenShardMoves(t *testing.T) {
	for what, next := range map[string]func(n *node){
		"elsewhere": func(n *node) { n.swap(2, 2, remote("owner", 2)) },
		"here":      func(n *node) { n.swap(2, 2, local(2)) },
		"held first": func(n *node) {
			n.swap(1, 2, held(route.ReasonMoving))
			synctest.Wait()
			if w := n.room.Stats().Waiting; w != 1 {
				n.t.Errorf("%d requests wait in the queue while their shard moves, want 1", w)
			}
			n.swap(2, 2, remote("owner", 2))
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sim := newSim(t)
				owner := simNode(t, sim, "owner", simple)
				owner.swap(2, 2, local(2))
				ingress := simNode(t, sim, "ingress", simple, func(o *proxy.Options) { o.Cluster = mute{o.Cluster, "stopped"} })
				ingress.knows("owner", owner)
				ingress.swap(1, 1, remote("stopped", 1))
				c := ingress.dial()
				began := time.Now()
				c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n")
				synctest.Wait()
				next(ingress)
				if res, _ := c.answer("POST"); res.StatusCode != http.StatusOK {
					t.Errorf("POST = %d, want 200", res.StatusCode)
				}
				if took := time.Since(began); took > 100*time.Millisecond {
					t.Errorf("answered after %v: it waited for the stopped node", took)
				}
				_ = c.Close()
			})
		})
	}
}

// A new map that does not move the shard does not cancel the dial.
func TestDialContinuesWhileShardStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := newSim(t)
		ingress := simNode(t, sim, "ingress", simple, func(o *proxy.Options) {
			o.Cluster, o.QueueWait = mute{o.Cluster, "stopped"}, time.Second
		})
		ingress.swap(1, 1, remote("stopped", 1))
		c := ingress.dial()
		began := time.Now()
		c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n")
		synctest.Wait()
		ingress.swap(2, 2, remote("stopped", 1))
		if res, _ := c.answer("POST"); res.StatusCode != http.StatusServiceUnavailable && res.StatusCode != http.StatusBadGateway {
			t.Errorf("POST = %d, want an answer that says that the node is out of reach", res.StatusCode)
		}
		if took := time.Since(began); took < time.Second {
			t.Errorf("given up after %v, want all of the time there is", took)
		}
		_ = c.Close()
	})
}
