package recovery

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// dialTimeout bounds the attempt to connect to a node that is considered lost.
const dialTimeout = time.Second

// gossipFile is the file in the data directory in which gossip stores its members.
const gossipFile = "gossip"

// checkOthersGone returns an error if a process still listens at the gossip address of another node. It protects
// the operator from giving up a running cluster by mistake. It does not prove that the nodes are lost: a node
// that a broken network link separates does not respond either.
func checkOthersGone(data, self string, reachable func(addr string) bool) error {
	addrs, err := lastSeen(filepath.Join(data, gossipFile))
	if err != nil {
		return fmt.Errorf("recovery: %w", err)
	}
	delete(addrs, self)
	nodes := slices.Sorted(maps.Keys(addrs))
	results := make([]chan bool, len(nodes))
	for i, node := range nodes {
		results[i] = make(chan bool, 1)
		go func() { results[i] <- reachable(addrs[node]) }()
	}
	for i, node := range nodes {
		if isReachable := <-results[i]; isReachable {
			return fmt.Errorf("recovery: the cluster may still run: a process responds at %s, the address of node %q; stop every node first, or use --ignore-reachable-nodes if that process is another program", addrs[node], node)
		}
	}
	return nil
}

// lastSeen reads the gossip addresses of the members from the file of gossip, by name. It uses only the lines
// "alive: name addr". Later lines about failed members are ignored, because such a member may still run.
func lastSeen(path string) (map[string]string, error) {
	file, err := os.Open(path) //nolint:gosec // the operator names the directory
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]string{}, nil
	}
	if err != nil {
		return nil, err
	}
	addrs := map[string]string{}
	lines := bufio.NewReader(file)
	for err == nil {
		var line string
		line, err = lines.ReadString('\n') // without a length limit, because the name of a member can be long
		nameAndAddr, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "alive: ")
		if space := strings.LastIndexByte(nameAndAddr, ' '); ok && space > 0 {
			addrs[nameAndAddr[:space]] = nameAndAddr[space+1:]
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return addrs, errors.Join(err, file.Close())
}

// IsListening reports whether a process accepts TCP connections at addr.
func IsListening(addr string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	return c.Close() == nil
}
