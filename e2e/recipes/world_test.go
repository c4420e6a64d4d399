//go:build linux

package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/procgroup"
)

// command returns the command line and the additional environment of an instance. name is the ID of its node, or NODE/INSTANCE. The
// instance must listen on 127.0.0.1 at port, and may keep files in dir, which exists.
type command func(name string, port int, dir string) (args, env []string)

// instance is one instance of the real software.
type instance struct {
	// name is the ID of its node, or NODE/INSTANCE if the node has several instances.
	name string
	addr string
	args []string
	env  []string
	dir  string

	process *exec.Cmd
	ended   chan struct{}
}

// world is a cluster of three nodes with instances of the software behind each.
type world struct {
	*cluster.Cluster
	instances map[string]*instance // by name
}

// startWorld starts three instances and three nodes with these flags. It returns when the nodes serve all shards.
// Nodes hold their shards during a restart in place.
func startWorld(t *testing.T, run command, flags ...string) *world {
	t.Helper()
	return startWorldOf(t, 1, run, flags...)
}

// startWorldOf is startWorld with several instances behind each node.
func startWorldOf(t *testing.T, perNode int, run command, flags ...string) *world {
	t.Helper()
	binaries := build.Binaries(t)
	w := &world{instances: map[string]*instance{}}
	w.Cluster = cluster.New(t, cluster.Options{
		Binaries: binaries, Secret: true, Flags: append([]string{"--on-shutdown=hold", "--hold-grace=13s"}, flags...),
	})
	ports, err := cluster.NewPorts()
	must(t, err)
	t.Cleanup(ports.Close)
	for _, id := range []string{"a", "b", "c"} {
		var upstreams []string
		for number := 1; number <= perNode; number++ {
			name := id
			if perNode > 1 {
				name = fmt.Sprint(id, "/", number)
			}
			port, err := ports.Free()
			must(t, err)
			x := w.startInstance(t, name, port, run)
			upstreams = append(upstreams, "http://"+x.addr)
		}
		w.Prepare(t, "--bootstrap-expect", "3", "--upstream="+strings.Join(upstreams, ","))
	}
	for _, x := range w.instances {
		x.awaitPort(t)
	}
	w.AddJoinFlags()
	for _, node := range w.Nodes() {
		node.Start(t)
	}
	w.AwaitServing(t)
	return w
}

// startInstance starts an instance, which ends with the test.
func (w *world) startInstance(t *testing.T, name string, port int, run command) *instance {
	t.Helper()
	x := &instance{name: name, addr: fmt.Sprint("127.0.0.1:", port), dir: filepath.Join(w.Dir(), "instance-"+strings.ReplaceAll(name, "/", "-"))}
	must(t, os.Mkdir(x.dir, 0o700))
	x.args, x.env = run(name, port, x.dir)
	w.instances[name] = x
	x.start(t)
	t.Cleanup(func() {
		if t.Failed() {
			x.printLog(t)
		}
		x.kill()
	})
	return x
}

// start starts the process of the instance. The process ends with the test.
func (x *instance) start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(x.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(t, err)
	defer func() { _ = log.Close() }()
	x.process = exec.CommandContext(context.WithoutCancel(t.Context()), x.args[0], x.args[1:]...)
	x.process.Dir, x.process.Env = x.dir, append(os.Environ(), x.env...)
	x.process.Stdout, x.process.Stderr = log, log
	wait, err := procgroup.Start(x.process)
	must(t, err)
	ended := make(chan struct{})
	x.ended = ended
	go func() {
		defer close(ended)
		_ = wait()
	}()
}

// printLog prints the end of the output of the instance.
func (x *instance) printLog(t *testing.T) {
	t.Helper()
	text, _ := os.ReadFile(filepath.Join(x.dir, "log"))
	t.Logf("output of instance %s:\n%s", x.name, text[max(0, len(text)-8000):])
}

// kill ends the process and its children with kill -9.
func (x *instance) kill() {
	_ = syscall.Kill(-x.process.Process.Pid, syscall.SIGKILL)
	<-x.ended
}

// awaitPort waits until the instance accepts connections.
func (x *instance) awaitPort(t *testing.T) {
	t.Helper()
	cluster.Await(t, "instance "+x.name+" accepts connections", func() error {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", x.addr)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// drain moves all shards of the node to the other nodes.
func (w *world) drain(t *testing.T, node *cluster.Node) {
	t.Helper()
	node.PerformAction(t, "drain", url.Values{"node": {node.ID}})
	w.awaitOwnedBy(t, node, false)
}

// uncordon lets the node own shards again.
func (w *world) uncordon(t *testing.T, node *cluster.Node) {
	t.Helper()
	node.PerformAction(t, "uncordon", url.Values{"node": {node.ID}})
	w.awaitOwnedBy(t, node, true)
}

// awaitOwnedBy waits until the node owns shards, or none.
func (w *world) awaitOwnedBy(t *testing.T, node *cluster.Node, owns bool) {
	t.Helper()
	cluster.Await(t, fmt.Sprintf("node %s owns shards: %v", node.ID, owns), func() error {
		current, err := node.Map(t.Context())
		if err == nil && (current.Counts()[node.ID] > 0) != owns {
			err = fmt.Errorf("the node owns %d shards", current.Counts()[node.ID])
		}
		return err
	})
}

// awaitShards waits until the node owns n shards.
func (w *world) awaitShards(t *testing.T, node *cluster.Node, n int) {
	t.Helper()
	cluster.Await(t, fmt.Sprintf("node %s owns %d shards", node.ID, n), func() error {
		current, err := node.Map(t.Context())
		if err == nil && current.Counts()[node.ID] != n {
			err = fmt.Errorf("the node owns %d shards", current.Counts()[node.ID])
		}
		return err
	})
}

// keysOf returns n keys of different shards of the node.
func (w *world) keysOf(t *testing.T, node *cluster.Node, n int) []string {
	t.Helper()
	current, err := node.Map(t.Context())
	must(t, err)
	return current.Keys(node.ID, 1)[:n]
}

// ownerOf returns the node that owns the key.
func (w *world) ownerOf(t *testing.T, key string) *cluster.Node {
	t.Helper()
	current, err := w.Running()[0].Map(t.Context())
	must(t, err)
	return w.Node(current.OwnerOf(key))
}

// checkOwners reads access.log of all instances. Each line begins with the key and its epoch. No two instances
// have served one key in one epoch. minimum is the number of lines without which the test is wrong.
func (w *world) checkOwners(t *testing.T, minimum int) {
	t.Helper()
	owners, requests := map[string]string{}, 0
	for id, x := range w.instances {
		log, err := os.ReadFile(filepath.Join(x.dir, "access.log"))
		must(t, err)
		for line := range strings.Lines(string(log)) {
			key, rest, _ := strings.Cut(line, " ")
			epoch, _, isComplete := strings.Cut(rest, " ")
			if !isComplete || key == "-" || epoch == "-" {
				continue // a health check
			}
			requests++
			if owner := owners[key+" "+epoch]; owner != "" && owner != id {
				t.Errorf("both %s and %s have served %s in epoch %s", owner, id, key, epoch)
			}
			owners[key+" "+epoch] = id
		}
	}
	if requests < minimum {
		t.Errorf("the logs contain only %d requests", requests)
	}
}

// restartNodes restarts all nodes in place, one after the other. The instances continue to run. While a node is
// away, another goroutine runs whileAway, with the addresses of the other nodes.
func (w *world) restartNodes(t *testing.T, whileAway func(addrs []string)) {
	t.Helper()
	for _, node := range w.Nodes() {
		node.Terminate(t)
		node.AwaitExit(t, 0)
		addrs, done := cluster.Addrs(w.Running()), make(chan struct{})
		go func() {
			defer close(done)
			whileAway(addrs)
		}()
		cluster.Await(t, "a request for the node waits", func() error {
			select {
			case <-done:
				return nil
			default:
			}
			if w.Sum(t, w.Running(), "shardway_queue_requests") == 0 {
				return errors.New("no request waits")
			}
			return nil
		})
		node.Start(t)
		<-done
		w.AwaitServing(t)
	}
}

// killNode ends the node with kill -9, and waits until the others own its shards.
func (w *world) killNode(t *testing.T, node *cluster.Node) {
	t.Helper()
	node.Kill(t)
	w.AwaitShards(t, w.Others(node)...)
}
