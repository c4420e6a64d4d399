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

// checkOthersGone returns an error if a process still listens at the gossip address of another node. It protects the
// operator from giving up a running cluster by mistake. It is no proof that the nodes are lost: a node
// that a broken network link separates does not respond either.
func checkOthersGone(data, self string, reachable func(addr string) bool) error {
	seen, err := lastSeen(filepath.Join(data, gossipFile))
	if err != nil {
		return fmt.Errorf("recovery: %w", err)
	}
	delete(seen, self)
	ids := slices.Sorted(maps.Keys(seen))
	answers := make([]chan bool, len(ids))
	for i, id := range ids {
		answers[i] = make(chan bool, 1)
		go func() { answers[i] <- reachable(seen[id]) }()
	}
	for i, id := range ids {
		if <-answers[i] {
			return fmt.Errorf("recovery: somebody answers at %s, where node %q was: is the cluster lost at all? Stop every node of it first, or use --ignore-reachable-nodes if that is another program", seen[id], id)
		}
	}
	return nil
}

// lastSeen reads the gossip addresses of the members from the file of gossip, by name. It uses only the lines
// "alive: name addr". Later lines about failed members are ignored, because such a member may still run.
func lastSeen(path string) (map[string]string, error) {
	f, err := os.Open(path) //nolint:gosec // the operator names the directory
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]string{}, nil
	}
	if err != nil {
		return nil, err
	}
	seen := map[string]string{}
	lines := bufio.NewReader(f)
	for err == nil {
		var line string
		line, err = lines.ReadString('\n') // without a length limit, because the name of a member can be long
		if rest, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "alive: "); ok {
			if i := strings.LastIndexByte(rest, ' '); i > 0 {
				seen[rest[:i]] = rest[i+1:]
			}
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return seen, errors.Join(err, f.Close())
}

// Listens reports whether a process accepts TCP connections at addr.
func Listens(addr string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	return c.Close() == nil
}
