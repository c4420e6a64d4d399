//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/internal/secret"
)

// Kinds of benchmark clusters, which newVariant translates into a variant. The empty kind has no special
// feature.
const (
	embedded    = "embedded"     // the nodes contain the handler of the backend
	clusterTLS  = "TLS"          // the nodes have a cluster secret, so they use TLS between each other
	clientTLS   = "TLS in front" // clients reach the nodes with TLS
	otherBinary = "beside"       // the nodes run another binary, such as an older one
)

// withBackendCost returns a setup whose cost includes the backend.
func (b *benchRun) withBackendCost(node *setup) *setup {
	return &setup{name: "app behind " + node.name, hops: node.hops, target: node.target, processes: append([]*process{b.backend}, node.processes...), adminAddrs: node.adminAddrs}
}

// variant describes how the two nodes of a benchmark cluster are started, and how its setups are labeled.
type variant struct {
	// oneHopLabel and twoHopsLabel are the names of the setups in which one node serves a request, or forwards
	// it to the other node.
	oneHopLabel, twoHopsLabel string
	flags                     []string // additional flags of both nodes
	// command returns the start of the command line of the node with this index.
	command func(index int) []string
}

// newVariant returns how the nodes of a cluster of the given kind are started. program is the path of the
// node binary.
func (b *benchRun) newVariant(program, kind string) (variant, error) {
	result := variant{
		oneHopLabel: "shardway", twoHopsLabel: "shardway → shardway",
		command: func(i int) []string { return []string{program, "run", "--upstream", "http://" + b.backends[i]} },
	}
	switch kind {
	case embedded:
		self, err := os.Executable()
		if err != nil {
			return variant{}, err
		}
		result.oneHopLabel = "app in shardway"
		result.command = func(int) []string { return []string{self, "-embedded", "--"} }
	case clusterTLS:
		result.twoHopsLabel += ", " + kind
		path := filepath.Join(b.dir, "secret")
		if err := secret.WriteFile(path, secret.List{secret.Generate(time.Now())}); err != nil {
			return variant{}, err
		}
		result.flags = []string{"--secret-file", path}
	case otherBinary:
		result.oneHopLabel, result.twoHopsLabel = otherBinary, otherBinary+" → "+otherBinary
	case clientTLS:
		result.flags = []string{"--tls-cert", b.certificate, "--tls-key", b.certificate}
	}
	return result, nil
}

// startNodes starts a cluster of two nodes, a and b, each in front of a backend, and
// returns its setups for one hop and for two hops. wrk always sends to node a: keys that a
// owns for one hop, and keys that b owns for two. kind selects the variant of the cluster.
func (b *benchRun) startNodes(ctx context.Context, program, kind string) ([]*setup, error) {
	ids := []string{"a", "b"}
	addrs, err := b.addrs(portsPerNode * len(ids)) //nolint:contextcheck // probing a port of this machine completes immediately
	if err != nil {
		return nil, err
	}
	started, err := b.newVariant(program, kind)
	if err != nil {
		return nil, err
	}
	var procs []*process
	for i, id := range ids {
		nodeAddrs, peerAddrs := addrs[portsPerNode*i:], addrs[portsPerNode*(len(ids)-1-i):]
		flags := slices.Concat([]string{"--join", peerAddrs[2], "--bootstrap-expect", "2"}, started.flags)
		process, err := b.startNode(ctx, started.command(i), id, kind, nodeAddrs, flags)
		if err != nil {
			return nil, err
		}
		procs = append(procs, process)
	}
	if err := await(ctx, "the cluster", func() error { return b.checkServing(ctx, addrs[1], ids) }); err != nil {
		return nil, err
	}
	return []*setup{
		{name: started.oneHopLabel, hops: 1, target: addrs[0], processes: procs[:1], adminAddrs: []string{addrs[1]}},
		{name: started.twoHopsLabel, hops: 2, target: addrs[0], processes: procs, adminAddrs: []string{addrs[1], addrs[portsPerNode+1]}},
	}, nil
}

// portsPerNode is the number of addresses of a node: listen, admin, gossip, peer.
const portsPerNode = 4

// startNode runs command with the flags of a node, followed by flags. addrs contains the
// addresses of the node. kind distinguishes the files of nodes with the same id.
func (b *benchRun) startNode(ctx context.Context, command []string, id, kind string, addrs, flags []string) (*process, error) {
	name := id + strings.ReplaceAll(kind, " ", "-")
	args := slices.Concat(command, []string{
		"--node", id, "--data", filepath.Join(b.dir, "data-"+name), "--listen", addrs[0], "--admin", addrs[1], "--gossip", addrs[2], "--peer", addrs[3],
	}, flags)
	return b.launch(ctx, "node-"+name, addrs[0], nil, args...)
}

// checkServing returns nil once each of the nodes owns shards in the map of the node at admin.
// It stores that map for the selection of keys.
func (b *benchRun) checkServing(ctx context.Context, admin string, ids []string) error {
	body, err := get(ctx, "http://"+admin+"/v1/map")
	if err != nil {
		return err
	}
	var shardMap cluster.Map
	if err := json.Unmarshal(body, &shardMap); err != nil {
		return err
	}
	counts := shardMap.Counts()
	for _, id := range ids {
		if counts[id] == 0 {
			return fmt.Errorf("node %s owns nothing: %v", id, counts)
		}
	}
	if len(ids) > 1 { // a single node owns all keys, so its map excludes none
		b.maps = append(b.maps, shardMap)
	}
	return nil
}

// get returns the body of a response with status 200, and otherwise an error.
func get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, resp.Status, body)
	}
	return body, err
}

// keyFile returns the path of a file with the keys for a number of hops, and writes the file
// if it does not exist. For one hop, node a of every cluster owns the keys. For two hops,
// node b does. Other proxies receive the same keys.
func (b *benchRun) keyFile(hops int) (string, error) {
	owner := []string{"a", "b"}[hops-1]
	path := filepath.Join(b.dir, "keys-"+owner)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	var text strings.Builder
	for i, n := 0, 0; n < keyCount; i++ {
		key := fmt.Sprintf("key-%d", i)
		hasOtherOwner := func(shardMap cluster.Map) bool { return shardMap.OwnerOf(key) != owner }
		if !slices.ContainsFunc(b.maps, hasOtherOwner) { // The clusters may have different maps.
			text.WriteString(key + "\n")
			n++
		}
	}
	return b.writeFile(filepath.Base(path), text.String())
}

// profile starts a CPU profile of each node of a setup, for the time in which wrk runs. The
// returned function waits for the profiles and writes them into files.
func (b *benchRun) profile(ctx context.Context, profiled *setup, prefix string, duration time.Duration) func() error {
	done := make(chan error, len(profiled.adminAddrs))
	for i, admin := range profiled.adminAddrs {
		go func() {
			body, err := get(ctx, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", admin, max(1, int(duration/time.Second)-1)))
			if err == nil {
				err = os.WriteFile(fmt.Sprintf("%s-%d.pprof", prefix, i), body, 0o600)
			}
			done <- err
		}()
	}
	return func() error {
		var errs []error
		for range profiled.adminAddrs {
			errs = append(errs, <-done)
		}
		return errors.Join(errs...)
	}
}
