package demo

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"
)

// nodeCount is the number of nodes: the smallest number that tolerates the failure of one.
const nodeCount = 3

// lastPort is the highest port below the range for outgoing connections, which starts at 32768 on Linux.
const lastPort = 32767

// defaultAdminPort is the port of the default value of --admin.
const defaultAdminPort = 8081

// host is the address of all listeners.
const host = "127.0.0.1"

// layout contains the names and ports of all processes.
type layout struct{ nodes []nodePlan }

// nodePlan is one node and its app, with their ports.
type nodePlan struct {
	id                             string
	http, admin, gossip, peer, app int
}

// portKind is a listener that each node or app has.
type portKind struct {
	first int                    // usual port of the first node
	step  int                    // difference to the usual port of the next node
	field func(n *nodePlan) *int // where the port is stored
}

// portKinds returns the listeners in the order in which they get ports.
func portKinds() []portKind {
	return []portKind{
		{defaultAdminPort, 2, func(n *nodePlan) *int { return &n.admin }},
		{8080, 2, func(n *nodePlan) *int { return &n.http }},
		{7946, 1, func(n *nodePlan) *int { return &n.gossip }},
		{7956, 1, func(n *nodePlan) *int { return &n.peer }},
		{9001, 1, func(n *nodePlan) *int { return &n.app }},
	}
}

// planLayout assigns a port to each listener: its usual port, or the next higher free port. It calls free
// at most once for each port. The admin port of the first node is assigned first, because commands use
// it by default.
func planLayout(free func(port int) bool) (layout, error) {
	plan := layout{nodes: make([]nodePlan, nodeCount)}
	checked := make(map[int]bool) // ports that are assigned or not free
	for _, kind := range portKinds() {
		port := kind.first
		for i := range plan.nodes {
			port = max(port, kind.first+i*kind.step)
			for checked[port] || !free(port) {
				if port >= lastPort {
					return layout{}, fmt.Errorf("demo: no free port from %d to %d: stop something that listens there", kind.first, lastPort)
				}
				checked[port] = true
				port++
			}
			checked[port] = true
			*kind.field(&plan.nodes[i]) = port
		}
	}
	for i := range plan.nodes {
		plan.nodes[i].id = "n" + strconv.Itoa(i+1)
	}
	return plan, nil
}

// runArgs returns the arguments of node i. Each node joins all others, so they can start in any order.
func (l layout) runArgs(i int, dir string, extraArgs []string) []string {
	node := l.nodes[i]
	args := []string{
		"run",
		"--node", node.id,
		"--data", filepath.Join(dir, node.id),
		"--upstream", "http://" + addr(node.app),
		"--hooks", hookPath,
		"--listen", addr(node.http),
		"--admin", addr(node.admin),
		"--gossip", addr(node.gossip),
		"--peer", addr(node.peer),
		"--bootstrap-expect", strconv.Itoa(len(l.nodes)),
		"--key", "header:X-Shard-Key",
		"--key", "query:room", // for the chat
		"--on-missing-key", "cookie", // for browsers
		"--log-format", "console",
	}
	for j, other := range l.nodes {
		if j != i {
			args = append(args, "--join", addr(other.gossip))
		}
	}
	return append(args, extraArgs...)
}

// appArgs returns the arguments of the app of node i.
func (l layout) appArgs(i int, dir string) []string {
	return []string{"demo-app", "--listen", addr(l.nodes[i].app), "--state", stateDir(dir)}
}

// stateDir returns the directory in which all apps store their shards. It stands for an object store.
func stateDir(dir string) string { return filepath.Join(dir, "state") }

func addr(port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }
