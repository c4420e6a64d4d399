package node_test

import (
	"bytes"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shardway/admin/api"
	"shardway/node"
)

// A follower sends all its questions to the leader at once on a lasting stream. Once, it opened a stream for each question, later for each
// batch. With two followers, these were most of the streams that an idle leader accepted, and each needs a handshake if there is a secret.
func TestFollowerBatchesQueriesOnOneStream(t *testing.T) {
	three(t, func(w *world) {
		time.Sleep(10 * time.Second) // no node sends anything else any more
		ask := func(what string, most uint64) {
			t.Helper()
			l, f := w.leader(), w.follower()
			views, suspects, level, streams := f.node.AskLeader(w.t.Context(), l.node)
			if views != 3 || !suspects || !level || streams > most {
				t.Errorf("%s: %d views, suspects %v, level %v by %d streams more, want 3, true, true by %d at most", what, views, suspects, level, streams, most)
			}
		}
		ask("at rest", 0)
		if n := w.follower().node.EndLine(); n != 1 {
			t.Errorf("%d streams were kept, want one", n)
		}
		ask("once it has ended", 1)
		ask("after that", 0)
		time.Sleep(2 * time.Minute)
		before := w.leader().node.AcceptedStreams()
		time.Sleep(time.Minute)
		if n := w.leader().node.AcceptedStreams() - before; n > 20 {
			t.Errorf("others have made %d connections in a minute", n)
		}
		l := w.leader()
		if err := l.node.API().Do(w.t.Context(), api.Action{Verb: api.StepDown}); err != nil {
			t.Fatal(err)
		}
		w.until("another one leads", func() bool { return w.leader() != nil && w.leader() != l })
		time.Sleep(10 * time.Second)
		ask("of another leader", 0)
		if n := w.leader().node.EndLine(); n != 0 {
			t.Errorf("a leader keeps %d streams to one before it", n)
		}
	})
}

// A query stream that is not used ends after a minute.
func TestUnusedQueryStreamsEnd(t *testing.T) {
	three(t, func(w *world) {
		time.Sleep(10 * time.Second)
		l, f := w.leader().node, w.follower().node
		ask, end := f.Line(w.t.Context(), l)
		defer end()
		before := l.OpenStreams()
		for _, tt := range []struct {
			after time.Duration
			ended int
		}{{0, 0}, {59 * time.Second, 0}, {59 * time.Second, 0}, {61 * time.Second, 1}} {
			time.Sleep(tt.after)
			if n := before - l.OpenStreams(); n != tt.ended {
				t.Errorf("%v after a question %d streams have ended, want %d", tt.after, n, tt.ended)
			}
			if err := ask(); err != nil {
				t.Errorf("%v after the question before: %v", tt.after, err)
			}
		}
	})
}

// questioned counts the batches of questions that nodes receive.
type questioned struct {
	net.Listener
	n *atomic.Int64
}

// Accept returns a connection whose questions are counted.
func (a questioned) Accept() (net.Conn, error) {
	c, err := a.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return questionedConn{c, a.n}, nil
}

type questionedConn struct {
	net.Conn
	n *atomic.Int64
}

// Read counts a batch of questions.
func (c questionedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if bytes.Contains(p[:n], []byte(`"what":"several"`)) {
		c.n.Add(1)
	}
	return n, err
}

// While nothing changes, followers query the leader half as often, because each query wakes both nodes.
func TestTheLeaderIsAskedSeldomWhileAllIsCalm(t *testing.T) {
	bubble(t, func(w *world) {
		var n atomic.Int64
		w.tune = func(o *node.Options) { o.Peer = questioned{o.Peer, &n} }
		for _, name := range []string{"a", "b", "c"} {
			w.start(name)
		}
		w.untilSettled("a", "b", "c")
		time.Sleep(time.Minute)
		before := n.Load()
		time.Sleep(time.Minute)
		if n := n.Load() - before; n < 25 || n > 32 {
			t.Errorf("two others have asked %d times in a minute, want every 4 s each, or a little less often", n)
		}
	})
}

// Each question of a batch gets its own answer, and the number of questions is limited.
func TestSeveralQuestionsAreAnsweredEachByItself(t *testing.T) {
	three(t, func(w *world) {
		f := w.follower().node
		errs, err := f.Several(w.t.Context(), "load", "views", "nonsense", "running")
		if err != "" || len(errs) != 4 || errs[0] != "" || errs[1] == "" || !strings.Contains(errs[2], "nonsense") || errs[3] != "" {
			t.Errorf("errors %q, %q, want some of who does not lead, and of what is no question", errs, err)
		}
		for name, many := range map[string][]string{"within": {"load", "several"}, "at most": slices.Repeat([]string{"load"}, 9)} {
			if errs, err := f.Several(w.t.Context(), many...); len(errs) != 0 || !strings.Contains(err, name) {
				t.Errorf("%v: errors %q, %q, want a refusal", many, errs, err)
			}
		}
	})
}
