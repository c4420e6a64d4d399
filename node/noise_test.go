package node_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/admin/api"
	"shardway/internal/simnet"
	"shardway/node"
	"shardway/peer"
	"shardway/shardmap"
)

// journal collects the log lines of nodes.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, string(bytes.TrimSpace(b)))
	return len(b), nil
}

// about returns how many lines contain the text, and the length of the longest.
func (j *journal) about(text string) (n, longest int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, l := range j.lines {
		if strings.Contains(l, text) {
			n, longest = n+1, max(longest, len(l))
		}
	}
	return n, longest
}

// opens dials a node under the id of another one, from its own host.
func opens(w *world, h *simnet.Host, from, to *process, kind peer.Kind) *peer.Conn {
	w.t.Helper()
	cluster := w.leader().node.State().ClusterID()
	port := peer.New(peer.Options{
		Node: from.name, Disk: from.node.GossipTags()["disk"], Cluster: func() string { return cluster },
		Dial: h.Dial, Lookup: func(string) (string, bool) { return to.host.Addr(7947), true },
	})
	c, err := port.Dial(w.t.Context(), to.name, kind)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// A client with the key of a node cannot fill the log. Once, each heartbeat of another process, and each invalid one, wrote a line into the
// leader's log, and names in requests had no length limit.
func TestOneNodeCannotFillTheLog(t *testing.T) {
	t.Parallel()
	j := &journal{}
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) { o.Log = zerolog.New(j).Level(zerolog.InfoLevel) }
		w.start("a")
		w.start("b")
		w.start("c")
		w.untilSettled("a", "b", "c")
		from, to, liar := w.follower(), w.leader(), w.net.Host("liar")
		hb := ack.Heartbeat{
			Node: shardmap.NodeID(from.name), Server: from.name + "/" + from.node.GossipTags()["disk"],
			Boot: 1, Nonce: 1, Number: 1, Weight: 1, Term: to.node.Term(),
		}
		b, err := hb.MarshalBinary()
		if err != nil {
			w.t.Fatal(err)
		}
		const times = 200
		c := opens(w, liar, from, to, peer.Heartbeat)
		for range times {
			if err := peer.WriteFrame(c, b); err != nil {
				w.t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		_ = c.Close()
		for range times {
			c := opens(w, liar, from, to, peer.Heartbeat)
			_ = peer.WriteFrame(c, []byte("none"))
			_ = c.Close()
		}
		for _, text := range []string{"heartbeat refused", "invalid heartbeat"} {
			if n, _ := j.about(text); n == 0 || n > times/10 {
				w.t.Errorf("%q stands %d times in the log, want it seldom", text, n)
			}
		}
		long := strings.Repeat("x", 1<<18)
		time.Sleep(5 * time.Second) // long after the election
		for name, q := range map[string]any{
			"timing changed":   map[string]any{"what": "timing", "by": long, "timing": api.Timing{Lease: "501ms"}},
			"action requested": map[string]any{"what": "do", "action": api.Action{Verb: api.Remove, Node: long, By: long}},
		} {
			q, err := json.Marshal(q)
			if err != nil {
				w.t.Fatal(err)
			}
			c := opens(w, liar, from, to, peer.Control)
			if err := peer.WriteFrame(c, q); err != nil {
				w.t.Fatal(err)
			}
			_, _ = peer.ReadFrame(c, nil, 1<<21)
			_ = c.Close()
			if n, longest := j.about(name); n != 1 || longest > 2<<10 {
				w.t.Errorf("%s: %d lines, the longest of %d bytes", name, n, longest)
			}
		}
	})
}
