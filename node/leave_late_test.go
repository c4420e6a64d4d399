package node_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"shardway/internal/simnet"
	"shardway/node"
	"shardway/shardmap"
)

// runs counts the requests that the apps of a test have processed, by path.
type runs struct {
	mu sync.Mutex
	of map[string]int
}

// answeringApps starts an app on every node that responds with 200.
func answeringApps(w *world) *runs {
	r := &runs{of: map[string]int{}}
	for _, p := range w.running() {
		ln, err := p.host.Listen(":9000")
		if err != nil {
			w.t.Fatal(err)
		}
		go func() { // ends with the network
			for {
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				go r.serve(conn)
			}
		}()
	}
	return r
}

func (r *runs) count(path string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of[path]
}

func (r *runs) serve(conn net.Conn) {
	for br := bufio.NewReader(conn); ; {
		req, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		r.mu.Lock()
		r.of[req.URL.Path]++
		r.mu.Unlock()
		if _, err := fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil {
			return
		}
	}
}

// A node that has left and has no clients sends its leave notice, and leaves gossip and Raft, which takes some time. An ingress with an
// older log still forwards requests to it. Requests that arrive while the streams close have not been processed, and are sent again. Once,
// the node did not report that, and a POST got the response that it may have been processed.
func TestPostInTransitToLeftNodeIsRetried(t *testing.T) {
	t.Parallel()
	const apart = 3 * time.Millisecond // one-way latency: some of the requests below are always in transit
	three(t, func(w *world) {
		w.untilVoters(3)
		w.tune = func(o *node.Options) {
			o.Gateway, o.CheckApp, o.Proxy.DialUpstream, o.Queue.Wait = true, nil, nil, time.Minute
		}
		w.start("g")
		g, p := w.all["g"], w.follower()
		w.until("the gateway routes", func() bool { return g.started() && g.node.API().Ready() == nil && g.node.Routes() })
		ran := answeringApps(w)
		w.net.SetLink(g.name, p.name, simnet.Link{Latency: apart})
		g.log.close()
		p.stop()
		w.until("it owns nothing", func() bool {
			return w.leader().node.State().Committed().ShardCount(shardmap.NodeID(p.name)) == 0
		})
		var answers []<-chan clientResponse
		for !p.ended() {
			answers = append(answers, ask(w, g, p.name, fmt.Sprint("/", len(answers))))
			time.Sleep(time.Millisecond)
		}
		g.log.open()
		for i, answered := range answers {
			got := <-answered
			if n := ran.count(fmt.Sprint("/", i)); got.status != http.StatusOK || n != 1 {
				w.t.Errorf("POST %d of %d was answered %v and ran %d times, want 200 and once", i, len(answers), got, n)
			}
		}
		w.t.Logf("%d requests", len(answers))
	})
}
