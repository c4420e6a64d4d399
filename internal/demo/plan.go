package demo

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"
)

// nodes is how many nodes the demo has: the fewest that survive the loss of any.
const nodes = 3

// maxPort is the last port that no system hands out by itself for outgoing
// connections: Linux begins at 32768.
const maxPort = 32767

// firstAdmin is where every command asks that is not told where.
const firstAdmin = 8081

// host is where the whole demo lives.
const host = "127.0.0.1"

// layout is the demo before anything runs: names and ports.
type layout struct{ nodes []nodePlan }

// nodePlan is one node and its app, with their ports.
type nodePlan struct {
	id                             string
	http, admin, gossip, peer, app int
}

// plan gives every listener a port: the usual one, or the next above it that is
// free and not given to another. Free is asked about each at most once. The first
// node's admin port comes first: it is the one that every command asks by itself.
func plan(free func(port int) bool) (layout, error) {
	l := layout{nodes: make([]nodePlan, nodes)}
	given := make(map[int]bool)
	for _, kind := range []struct {
		first, step int
		field       func(n *nodePlan) *int
	}{
		{firstAdmin, 2, func(n *nodePlan) *int { return &n.admin }},
		{8080, 2, func(n *nodePlan) *int { return &n.http }},
		{7946, 1, func(n *nodePlan) *int { return &n.gossip }},
		{7956, 1, func(n *nodePlan) *int { return &n.peer }},
		{9001, 1, func(n *nodePlan) *int { return &n.app }},
	} {
		port := kind.first
		for i := range l.nodes {
			for port = max(port, kind.first+i*kind.step); given[port] || !free(port); port++ {
				if port >= maxPort {
					return layout{}, fmt.Errorf("demo: no free port from %d to %d: stop something that listens there", kind.first, maxPort)
				}
				given[port] = true // taken by someone: need not be asked about again
			}
			given[port] = true
			*kind.field(&l.nodes[i]) = port
		}
	}
	for i := range l.nodes {
		l.nodes[i].id = "n" + strconv.Itoa(i+1)
	}
	return l, nil
}

// runArgs are the arguments with which node i runs. Each joins all the others:
// the order in which they come up then does not matter.
func (l layout) runArgs(i int, dir string, more []string) []string {
	n := l.nodes[i]
	args := []string{
		"run",
		"--node", n.id,
		"--data", filepath.Join(dir, n.id),
		"--upstream", "http://" + addr(n.app),
		"--hooks", hookPath,
		"--listen", addr(n.http),
		"--admin", addr(n.admin),
		"--gossip", addr(n.gossip),
		"--peer", addr(n.peer),
		"--bootstrap-expect", strconv.Itoa(len(l.nodes)),
		"--key", "header:X-Shard-Key",
		"--key", "query:room", // of a chat
		"--on-missing-key", "cookie", // a browser has no key of its own
		"--log-format", "console",
	}
	for j, other := range l.nodes {
		if j != i {
			args = append(args, "--join", addr(other.gossip))
		}
	}
	return append(args, more...)
}

// appArgs are the arguments with which the app of node i runs.
func (l layout) appArgs(i int, dir string) []string {
	return []string{"demo-app", "--listen", addr(l.nodes[i].app), "--state", stateDir(dir)}
}

// stateDir is where all the apps keep their shards: what a bucket would be elsewhere.
func stateDir(dir string) string { return filepath.Join(dir, "state") }

func addr(port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }
