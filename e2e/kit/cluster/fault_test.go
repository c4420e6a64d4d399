//go:build linux

package cluster

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"shardway/e2e/kit/history"
)

// A failing node first closes its client connections, and exits later. Meanwhile its disk
// fault may have ended, or the node may have been killed, or may have been terminating.
// The fault begins when the connections close, neither at the exit nor before.
func TestDeathBeginsWhenConnectionsClose(t *testing.T) {
	const takes = 60 * time.Millisecond
	says := func(line string) string {
		return fmt.Sprintf(`printf '{"level":"warn","time":"%%s","message":"%s"}\n' "$(date -Ins | tr , .)"; sleep %.2f; `, line, takes.Seconds())
	}
	fails := says(failedMessage)
	for _, c := range []struct {
		name, script string
		do           func(n *Node)
		want         history.FaultKind
		cut          bool // long before its exit
		holds        bool // and other nodes may take over its shards only after its exit
	}{
		{name: "by itself", script: fails + "exit 1", want: history.Killed, cut: true},
		{name: "with an app in it that does not return", script: says(handlerStuckMessage) + "exit 1", want: history.Killed, cut: true, holds: true},
		{name: "with an app in it that does not return from the cut", script: fails + says(handlerStuckMessage) + "exit 1", want: history.Killed, cut: true, holds: true},
		{name: "while it left", script: fails + "exit 1", do: func(n *Node) { n.cluster.beginFault(n, history.Terminated) }, want: history.Killed, cut: true},
		{name: "before it was killed", script: fails + "sleep 100", do: func(n *Node) {
			Await(t, "it says that it failed, and has more to end", func() error {
				if at, _ := n.process.findFailureMessage(); at == 0 || history.Now()-at < int64(takes) {
					return errors.New("it has not")
				}
				return nil
			})
			n.Kill(t)
		}, want: history.Killed, cut: true},
		{name: "at once, without a word", script: "exit 1", do: func(n *Node) { n.cluster.beginFault(n, history.Terminated) }, want: history.Killed},
		{name: "as it should", script: "exit 0", do: func(n *Node) { n.cluster.beginFault(n, history.Terminated) }, want: history.Terminated, cut: true},
		{name: "killed", script: "sleep 100", do: func(n *Node) { n.Kill(t) }, want: history.Killed},
		{name: "killed by somebody else", script: "kill -9 $$", want: history.Killed},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := &Node{ID: "a", cluster: &Cluster{}, faultIndex: -1}
			began := history.Now()
			n.process = launch(t, "sh", "-c", c.script)
			if c.do != nil {
				c.do(n)
			}
			if _, err := n.process.Wait(time.Minute); err != nil {
				t.Fatal(err)
			}
			if _, ended := n.Exited(); !ended {
				t.Fatal("it runs")
			}
			f := n.cluster.faults[n.faultIndex]
			if f.Kind != c.want || f.ExitedBy != n.process.exitedAt && f.ExitedBy < f.From || f.From < began-int64(time.Millisecond) {
				t.Errorf("%v from %d to %d, want %v from %d to %d", f.Kind, f.From, f.ExitedBy, c.want, began, n.process.exitedAt)
			}
			if f.HoldsShards != c.holds {
				t.Errorf("its app holds its shards until its end: %v, want %v", f.HoldsShards, c.holds)
			}
			if cut := n.process.exitedAt-f.From >= int64(takes/2); c.want == history.Killed && cut != c.cut {
				t.Errorf("dated %v before its end, want from the cut: %v", time.Duration(n.process.exitedAt-f.From), c.cut)
			}
		})
	}
}
