//go:build linux

package recipes_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"shardway/admin/api"
	"shardway/e2e/kit/cluster"
)

// lockConflict is the exit code of flock(1) if another process has the lock.
const lockConflict = 75

// processWorld is a cluster of three nodes that start the software themselves (--exec), one process for each key.
type processWorld struct {
	*world
	dir string // --exec-dir of all nodes
}

// startProcesses starts three nodes with --exec command, with these flags. All nodes share the directory of the
// processes. The command runs below flock(1): a second process in one directory ends with lockConflict, and then
// checkOneProcess fails the test.
func startProcesses(t *testing.T, command string, flags ...string) *processWorld {
	t.Helper()
	binaries := build.Binaries(t)
	w := &processWorld{world: &world{}, dir: t.TempDir()}
	locked := fmt.Sprintf("%s --exclusive --nonblock --no-fork --conflict-exit-code %d {dir}/lock %s", findProgram(t, "flock"), lockConflict, command)
	w.Cluster = cluster.New(t, cluster.Options{Binaries: binaries, Secret: true, Shards: 32, Flags: append([]string{
		"--on-shutdown=hold", "--hold-grace=13s", "--upstream=", "--exec=" + locked, "--exec-dir", w.dir, "--access-log-keys",
	}, flags...)})
	for range 3 {
		w.Prepare(t, "--bootstrap-expect", "3")
	}
	w.AddJoinFlags()
	for _, node := range w.Nodes() {
		node.Start(t)
	}
	w.AwaitServing(t)
	return w
}

// processes returns the processes of a node.
func (w *processWorld) processes(t *testing.T, node *cluster.Node) []api.Process {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+node.Admin+"/v1/processes", http.NoBody)
	must(t, err)
	res, err := http.DefaultClient.Do(req)
	must(t, err)
	defer func() { _ = res.Body.Close() }()
	var list api.ProcessList
	must(t, json.NewDecoder(res.Body).Decode(&list))
	return list.Processes
}

// processOf returns the node that owns a key, and the process of the key there.
func (w *processWorld) processOf(t *testing.T, key string) (node *cluster.Node, process api.Process) {
	t.Helper()
	cluster.Await(t, "a process of key "+key+" runs", func() error {
		for _, node = range w.Running() {
			for _, process = range w.processes(t, node) {
				if process.Key == key && process.State == "ready" {
					return nil
				}
			}
		}
		return errors.New("no node runs a process")
	})
	return node, process
}

// killProcess ends the process of a key with kill -9.
func (w *processWorld) killProcess(t *testing.T, key string) {
	t.Helper()
	_, process := w.processOf(t, key)
	must(t, syscall.Kill(process.PID, syscall.SIGKILL))
}

// checkOneProcess fails the test if two processes have used one directory at the same time.
func (w *processWorld) checkOneProcess(t *testing.T) {
	t.Helper()
	for _, node := range w.Nodes() {
		log, err := os.ReadFile(filepath.Join(w.Dir(), "node-"+node.ID+".log"))
		must(t, err)
		for line := range strings.Lines(string(log)) {
			if strings.Contains(line, "exit status "+strconv.Itoa(lockConflict)) {
				t.Errorf("two processes of one key: node %s: %s", node.ID, line)
			}
		}
	}
}
