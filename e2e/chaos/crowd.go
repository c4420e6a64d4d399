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

// burst has many new connections come to one node at once, again and again. Each
// asks once, and its answer is judged as all others are.
type burst struct{ at *cluster.Node }

// crowd is how many connections come at once.
const crowd = 100

func (b *burst) name() string { return "burst of connections" }

func (b *burst) begin(w *world) {
	b.at = w.pick(follower)
	w.note("%d connections at once to %s", crowd, b.at.ID)
	w.traffic.crowd(b.at, crowd)
}

func (b *burst) end(*world) {}

// crowd sends n requests at once to one node, each by a connection of its own. As a
// balancer would, they go to the others if nobody listens there.
func (t *traffic) crowd(at *cluster.Node, n int) {
	keys := t.w.keys("n")
	others := cluster.Addrs(t.w.others(at))
	targets := slices.Insert(others, min(1, len(others)), at.Addr) // a client begins with the second
	for i := range n {
		t.asked++
		r := load.Request{
			ID: fmt.Sprintf("r%d.crowd%d", t.w.number, t.asked), Key: keys[i%len(keys)], Timeout: t.w.o.QueueWait + t.w.o.Patience,
		}
		if i%2 == 1 {
			r.Method, r.Body = http.MethodPost, []byte(r.ID)
		}
		client, ctx := load.NewClient(targets, nil), t.ctx
		client.SetNoRetry(slices.Clone(t.noRetry)...)
		t.asking.Go(func() {
			defer client.Close()
			a := client.Do(ctx, r)
			t.mu.Lock()
			defer t.mu.Unlock()
			t.answers = append(t.answers, a)
		})
	}
}

// dribble has clients that send a byte of a body now and then, and never come to
// its end: no app may see them, and nobody else may wait for them.
type dribble struct{ conns []net.Conn }

// dribblers is how many there are at each node.
const dribblers = 20

func (d *dribble) name() string { return "slow clients" }

func (d *dribble) begin(w *world) {
	for _, n := range w.c.Running() {
		for i, key := range w.keys("n")[:dribblers] {
			c, err := (&net.Dialer{Timeout: time.Second}).DialContext(w.Context(), "tcp", n.Addr)
			if err != nil {
				continue // the node was hurt by something else
			}
			d.conns = append(d.conns, c)
			d.say(c, fmt.Sprintf("POST / HTTP/1.1\r\nHost: app\r\nX-Shard-Key: %s\r\nApp-Id: r%d.slow%s%d\r\nContent-Length: 1000\r\n\r\n", key, w.number, n.ID, i))
		}
	}
}

func (d *dribble) during(w *world) {
	for until := time.Now().Add(w.span); time.Now().Before(until); {
		for _, c := range d.conns {
			d.say(c, "x")
		}
		w.wait(200 * time.Millisecond)
	}
}

func (d *dribble) end(*world) {
	for _, c := range d.conns {
		_ = c.Close()
	}
}

// say sends something; a connection that broke says nothing more.
func (d *dribble) say(c net.Conn, text string) {
	_ = c.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = c.Write([]byte(text))
}
