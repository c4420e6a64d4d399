package node_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"shardway/node"
)

// written collects what a node has logged.
type written struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *written) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(b)
}

// lines returns the message and the node of each line, and its fields about members.
func (w *written) lines(t *testing.T) (all []string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for line := range bytes.Lines(w.b.Bytes()) {
		var l struct {
			Message, Peer string
			Joined, Left  []string
		}
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		all = append(all, fmt.Sprint(l.Message, " ", l.Peer, l.Joined, l.Left))
	}
	return all
}

// The log shows which node joined, left or began to vote, and which node caused each map. Once, it showed the maps only.
func TestLogReportsChangesOfANode(t *testing.T) {
	bubble(t, func(w *world) {
		logs := map[string]*written{}
		w.tune = func(o *node.Options) {
			out := &written{}
			logs[o.Dir.Node()], o.Log = out, zerolog.New(out).Level(zerolog.InfoLevel)
		}
		w.start("a")
		w.untilSettled("a")
		w.start("b")
		w.start("c")
		w.untilSettled("a", "b", "c")
		w.untilVoters(3)
		w.start("d")
		w.untilSettled("a", "b", "c", "d")
		w.untilVoters(4)
		d := w.all["d"]
		leads := w.leader().name
		if leads == "d" {
			w.t.Fatal("the newcomer leads")
		}
		d.terminate()
		w.untilSettled("a", "b", "c")
		told := func(name string) []string { return logs[name].lines(w.t) }
		for _, name := range []string{"a", "b", "c"} {
			for _, want := range []string{"node joined d[] []", "node became a voter d[] []", "node left d[] []"} {
				w.until(name+" says "+want, func() bool { return slices.Contains(told(name), want) })
				if n := len(slices.DeleteFunc(told(name), func(l string) bool { return l != want })); n != 1 {
					w.t.Errorf("%s says %q %d times", name, want, n)
				}
			}
		}
		for _, want := range []string{"map proposed [d] []", "map proposed [] [d]"} {
			if !slices.Contains(told(leads), want) {
				w.t.Errorf("the leader does not say %q: %q", want, told(leads))
			}
		}
	})
}
