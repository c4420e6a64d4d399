//go:build linux

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/coder/websocket"

	"shardway/e2e/kit/cluster"
)

// echoMessages is the WebSocket of keyProcessArg. It responds to each message with the ID of the process. With keep in
// the query, it asks the node to keep the connection of the client.
func echoMessages(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Has("keep") {
		w.Header().Set("Shardway-WebSocket", "keep")
	}
	socket, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer func() { _ = socket.CloseNow() }()
	for {
		if _, _, err := socket.Read(r.Context()); err != nil {
			return
		}
		if err := socket.Write(r.Context(), websocket.MessageText, fmt.Append(nil, os.Getpid())); err != nil {
			return
		}
	}
}

// processSocket is a WebSocket to the process of a key.
type processSocket struct {
	socket  *websocket.Conn
	replies chan int // IDs of processes; closed when the connection has ended
}

// dialProcess opens a WebSocket to the process of a key.
func dialProcess(t *testing.T, node *cluster.Node, key, query string) *processSocket {
	t.Helper()
	socket, _, err := websocket.Dial(t.Context(), "ws://"+node.Addr+"/?"+query, &websocket.DialOptions{HTTPHeader: http.Header{"X-Shard-Key": {key}}}) //nolint:bodyclose // there is none after 101
	must(t, err)
	s := &processSocket{socket: socket, replies: make(chan int, 1000)}
	go func() { // ends with the connection
		defer close(s.replies)
		for {
			_, text, err := socket.Read(context.WithoutCancel(t.Context()))
			if err != nil {
				return
			}
			var pid int
			_, _ = fmt.Sscan(string(text), &pid)
			s.replies <- pid
		}
	}()
	t.Cleanup(s.close)
	return s
}

func (s *processSocket) close() { _ = s.socket.CloseNow() }

// awaitReply sends messages until a process responds whose ID is not previous. It returns the ID.
func (s *processSocket) awaitReply(t *testing.T, previous int) (pid int) {
	t.Helper()
	cluster.Await(t, "another process responds", func() error {
		if err := s.socket.Write(t.Context(), websocket.MessageText, []byte("who?")); err != nil {
			t.Fatalf("the connection has ended: %v", err)
		}
		for {
			select {
			case reply, isOpen := <-s.replies:
				if !isOpen {
					t.Fatal("the connection has ended")
				}
				if reply != previous {
					pid = reply
					return nil
				}
			default:
				return errors.New("no response")
			}
		}
	})
	return pid
}

// awaitEnd waits until the connection has ended.
func (s *processSocket) awaitEnd(t *testing.T) {
	t.Helper()
	cluster.Await(t, "the connection ends", func() error {
		for {
			select {
			case _, isOpen := <-s.replies:
				if !isOpen {
					return nil
				}
			default:
				return errors.New("it is open")
			}
		}
	})
}

// TestWebSocketsReachTheProcessOfTheirKey opens WebSockets through another node. A process with an open WebSocket is not
// stopped as unused. A crash or a move of the process ends the WebSocket, unless the app has asked to keep it.
func TestWebSocketsReachTheProcessOfTheirKey(t *testing.T) {
	t.Parallel() // it waits most of the time
	c, _ := startWithProcesses(t, 3, "--exec-idle", "1s")
	owner, ingress := c.Node("a"), c.Node("b")
	keys := c.AwaitServing(t).Keys(owner.ID, 1)
	ended, kept := dialProcess(t, ingress, keys[0], ""), dialProcess(t, ingress, keys[1], "keep")
	endedPID, keptPID := ended.awaitReply(t, 0), kept.awaitReply(t, 0)
	if pids := processesAt(t, owner); endedPID == keptPID || !slices.Contains(pids, endedPID) || !slices.Contains(pids, keptPID) {
		t.Fatalf("processes %d and %d respond, and the owner runs %v", endedPID, keptPID, pids)
	}

	third := dialProcess(t, ingress, keys[2], "")
	unused := third.awaitReply(t, 0)
	third.close()
	cluster.Await(t, "the unused process is stopped", func() error { return runningOf([]int{unused}) })
	must(t, syscall.Kill(endedPID, 0))
	must(t, syscall.Kill(keptPID, 0))

	must(t, syscall.Kill(endedPID, syscall.SIGKILL))
	must(t, syscall.Kill(keptPID, syscall.SIGKILL))
	ended.awaitEnd(t)
	ended = dialProcess(t, ingress, keys[0], "")
	endedPID, keptPID = ended.awaitReply(t, endedPID), kept.awaitReply(t, keptPID)

	if out, code := shardway(t, "drain", owner.ID, "--wait", "--admin", ingress.Admin); code != 0 {
		t.Fatalf("drain: exit %d, %s", code, out)
	}
	must(t, runningOf([]int{endedPID, keptPID}))
	ended.awaitEnd(t)
	ended = dialProcess(t, ingress, keys[0], "")
	ended.awaitReply(t, endedPID)
	kept.awaitReply(t, keptPID)
	if left := processesAt(t, owner); len(left) != 0 {
		t.Errorf("processes %v run at the drained node", left)
	}
	ended.close()
	kept.close()
	cluster.Await(t, "the processes without WebSockets are stopped", func() error {
		for _, node := range c.Nodes() {
			if pids := processesAt(t, node); len(pids) > 0 {
				return fmt.Errorf("node %s runs %v", node.ID, pids)
			}
		}
		return nil
	})
}
