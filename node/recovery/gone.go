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

// dialTimeout is how long a lost node may take to show that it is not lost.
const dialTimeout = time.Second

// gossipFile is gossip's list of the members it saw, in the data directory.
const gossipFile = "gossip"

// gone reports an error if one of the nodes that gossip last saw still listens: a
// cluster that lives must not be given up by mistake. It is help, no proof: a node
// behind a cut wire does not answer.
func gone(data, self string, reachable func(addr string) bool) error {
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

// lastSeen reads from gossip's file where the members were: "alive: name addr". That
// a member was taken for dead later proves nothing.
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
		line, err = lines.ReadString('\n') // however long: a member may have had any name
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

// Listens reports whether somebody takes TCP connections at addr.
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
