//go:build linux

package chaos

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/load"
)

// burst opens many new connections to one node at the same time. Each connection sends one
// request, which is checked like all other requests.
type burst struct{ node *cluster.Node }

// burstSize is the number of simultaneous connections of a burst.
const burstSize = 100

func (b *burst) name() string { return "burst of connections" }

func (b *burst) begin(sc *scenario) {
	b.node = sc.pickNode(follower)
	sc.tracef("%d simultaneous connections to %s", burstSize, b.node.ID)
	sc.traffic.sendBurst(b.node, burstSize)
}

func (b *burst) end(*scenario) {}

// sendBurst sends count requests to node at once, each over its own connection. Like a load balancer,
// a client tries the other nodes if the connection to node is refused.
func (t *traffic) sendBurst(node *cluster.Node, count int) {
	keys := t.sc.uniqueKeys("n")
	others := cluster.Addrs(t.sc.membersExcept(node))
	// node is second, because load.Client.takeTarget advances before the first request.
	targets := slices.Insert(others, min(1, len(others)), node.Addr)
	for i := range count {
		req := load.Request{ID: t.nextID("burst"), Key: keys[i%len(keys)], Timeout: t.sc.opts.clientTimeout()}
		if i%2 == 1 {
			req.Method, req.Body = http.MethodPost, []byte(req.ID)
		}
		client := load.NewClient(targets, nil)
		client.SetNoRetry(slices.Clone(t.noRetry)...)
		t.sendSingle(client, req, client.Close)
	}
}

// slowClients opens connections that send one byte of a request body every slowByteInterval, and never
// complete it. No app may receive these requests, and they must not delay other requests.
type slowClients struct{ conns []net.Conn }

const (
	// slowClientsPerNode is the number of slow clients of each node.
	slowClientsPerNode = 20
	// slowByteInterval is the interval between two bytes of a slow client.
	slowByteInterval = 200 * time.Millisecond
)

func (s *slowClients) name() string { return "slow clients" }

func (s *slowClients) begin(sc *scenario) {
	for _, node := range sc.cluster.Running() {
		for i, key := range sc.uniqueKeys("n")[:slowClientsPerNode] {
			conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(sc.Context(), "tcp", node.Addr)
			if err != nil {
				continue // Another fault affects this node.
			}
			s.conns = append(s.conns, conn)
			s.write(conn, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: app\r\nX-Shard-Key: %s\r\nApp-Id: r%d.slow%s%d\r\nContent-Length: 1000\r\n\r\n", load.DefaultPath(key), key, sc.roundNumber, node.ID, i))
		}
	}
}

func (s *slowClients) whileActive(sc *scenario) {
	for until := time.Now().Add(sc.loadTime); time.Now().Before(until); {
		for _, conn := range s.conns {
			s.write(conn, "x")
		}
		sc.sleep(slowByteInterval)
	}
}

func (s *slowClients) end(*scenario) {
	for _, conn := range s.conns {
		_ = conn.Close()
	}
}

// write sends text and ignores errors, since a connection may have broken.
func (s *slowClients) write(conn net.Conn, text string) {
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = conn.Write([]byte(text))
}
