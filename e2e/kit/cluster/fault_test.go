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
	logAndSleep := func(line string) string {
		return fmt.Sprintf(`printf '{"level":"warn","time":"%%s","message":"%s"}\n' "$(date -Ins | tr , .)"; sleep %.2f; `, line, takes.Seconds())
	}
	fails := logAndSleep(failedMessage)
	for _, c := range []struct {
		name, script string
		do           func(node *Node)
		want         history.FaultKind
		closesEarly  bool // closes its connections long before its exit
		holdsShards  bool // other nodes may take over its shards only after its exit
	}{
		{name: "without a request of the test", script: fails + "exit 1", want: history.Killed, closesEarly: true},
		{name: "with an embedded app that does not return", script: logAndSleep(handlerStuckMessage) + "exit 1", want: history.Killed, closesEarly: true, holdsShards: true},
		{name: "with an embedded app that does not return after the connections are closed", script: fails + logAndSleep(handlerStuckMessage) + "exit 1", want: history.Killed, closesEarly: true, holdsShards: true},
		{name: "while it terminated", script: fails + "exit 1", do: func(node *Node) { node.cluster.beginFault(node, history.Terminated) }, want: history.Killed, closesEarly: true},
		{name: "before it was killed", script: fails + "sleep 100", do: func(node *Node) {
			Await(t, "the node has logged its failure, and its process still runs", func() error {
				if at, _ := node.process.findFailureMessage(); at == 0 || history.Now()-at < int64(takes) {
					return errors.New("the node has not logged its failure")
				}
				return nil
			})
			node.Kill(t)
		}, want: history.Killed, closesEarly: true},
		{name: "at once, without a log message", script: "exit 1", do: func(node *Node) { node.cluster.beginFault(node, history.Terminated) }, want: history.Killed},
		{name: "as requested", script: "exit 0", do: func(node *Node) { node.cluster.beginFault(node, history.Terminated) }, want: history.Terminated, closesEarly: true},
		{name: "killed", script: "sleep 100", do: func(node *Node) { node.Kill(t) }, want: history.Killed},
		{name: "killed by another process", script: "kill -9 $$", want: history.Killed},
	} {
		t.Run(c.name, func(t *testing.T) {
			node := &Node{ID: "a", cluster: &Cluster{}, faultIndex: -1}
			startedAt := history.Now()
			node.process = launch(t, "sh", "-c", c.script)
			if c.do != nil {
				c.do(node)
			}
			if _, err := node.process.Wait(time.Minute); err != nil {
				t.Fatal(err)
			}
			if _, ended := node.Exited(); !ended {
				t.Fatal("the process still runs")
			}
			fault := node.cluster.faults[node.faultIndex]
			if fault.Kind != c.want || fault.LatestExit != node.process.exitedAt && fault.LatestExit < fault.From || fault.From < startedAt-int64(time.Millisecond) {
				t.Errorf("%v from %d to %d, want %v from %d to %d", fault.Kind, fault.From, fault.LatestExit, c.want, startedAt, node.process.exitedAt)
			}
			if fault.HoldsShards != c.holdsShards {
				t.Errorf("its app holds its shards until its exit: %v, want %v", fault.HoldsShards, c.holdsShards)
			}
			if closedEarly := node.process.exitedAt-fault.From >= int64(takes/2); c.want == history.Killed && closedEarly != c.closesEarly {
				t.Errorf("the fault begins %v before the exit, want at the close of the connections: %v", time.Duration(node.process.exitedAt-fault.From), c.closesEarly)
			}
		})
	}
}
