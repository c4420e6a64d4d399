//go:build linux

package cluster

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"shardway/e2e/kit/history"
	"shardway/e2e/kit/load"
)

// Service is a service of a cluster with several services. Its requests have the path prefix /NAME, so
// load.ServiceKey returns its keys. The services must be in the order of their names.
type Service struct {
	Name   string
	Shards int
	// Nodes contains the IDs of the nodes that run the service, as one string.
	Nodes string
}

// runs reports whether a node runs the service.
func (sv *Service) runs(nodeID string) bool { return strings.Contains(sv.Nodes, nodeID) }

// ServiceRanges returns the shards of each service in the map of the cluster. It is nil without Options.Services.
func (c *Cluster) ServiceRanges() []history.Service {
	var ranges []history.Service
	first := 0
	for _, service := range c.opts.Services {
		ranges = append(ranges, history.Service{Name: service.Name, First: first, Shards: service.Shards})
		first += service.Shards
	}
	return ranges
}

// prepareServices starts the apps of a node, and writes its configuration file.
func (c *Cluster) prepareServices(tb testing.TB, node *Node) {
	tb.Helper()
	for _, service := range c.opts.Services {
		c.startApp(tb, node, service)
	}
	node.flags = append(node.flags, "--config", c.writeServices(tb, node))
}

// startApp starts the app of a service at a node that runs the service. The first one is the app that the node has.
func (c *Cluster) startApp(tb testing.TB, node *Node, service Service) {
	tb.Helper()
	if !service.runs(node.ID) {
		return
	}
	app := node.App
	if len(node.Instances) > 0 {
		app = c.newApp(tb, node)
	}
	app.Service = service.Name
	if len(node.Instances) > 0 {
		app.Start(tb)
	}
	node.Instances = append(node.Instances, app)
}

// writeServices writes the configuration file of a node, and returns its name.
func (c *Cluster) writeServices(tb testing.TB, node *Node) (file string) {
	tb.Helper()
	var text strings.Builder
	text.WriteString("services:\n")
	for _, service := range c.opts.Services {
		upstream := ""
		for _, app := range node.Instances {
			if app.Service == service.Name {
				upstream = ", upstream: 'http://" + app.Addr + "'"
			}
		}
		fmt.Fprintf(&text, "  %s: {routes: [/%s], key: 'header:X-Shard-Key', shards: %d%s}\n", service.Name, service.Name, service.Shards, upstream)
	}
	file = filepath.Join(c.dir, "node-"+node.ID+".yaml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		tb.Fatal(err)
	}
	return file
}

// AddService adds a service to the configuration files of all nodes, and starts its apps. Its range follows the others, so
// its name must be the last one in order. The nodes use it after a restart.
func (c *Cluster) AddService(tb testing.TB, service Service) {
	tb.Helper()
	c.opts.Services = append(c.opts.Services, service)
	c.opts.Shards += service.Shards
	for _, node := range c.nodes {
		c.startApp(tb, node, service)
		c.writeServices(tb, node)
	}
}

// checkServices returns an error unless the shards of each service are spread evenly over those of the
// nodes that run it.
func (c *Cluster) checkServices(shardMap Map, nodes []*Node) error {
	for i, part := range c.ServiceRanges() {
		service := &c.opts.Services[i]
		counts := make(map[string]int)
		for shard := part.First; shard < part.First+part.Shards; shard++ {
			counts[shardMap.Owner(shard)]++
		}
		owners := slices.DeleteFunc(slices.Clone(nodes), func(node *Node) bool { return !service.runs(node.ID) })
		if len(owners) == 0 {
			counts = map[string]int{"": counts[""] - part.Shards} // all its shards must be orphaned
		}
		for _, node := range owners {
			part.Shards -= counts[node.ID]
			if quota := service.Shards / len(owners); counts[node.ID] != quota && counts[node.ID] != quota+1 {
				return fmt.Errorf("service %s has counts %v for %d nodes", service.Name, counts, len(owners))
			}
		}
		if len(owners) > 0 && part.Shards > 0 || len(owners) == 0 && counts[""] != 0 {
			return fmt.Errorf("service %s has counts %v for %d nodes", service.Name, counts, len(owners))
		}
	}
	return nil
}

// serviceKeys returns n keys for each shard of the services for which isWanted returns true.
func serviceKeys(services []history.Service, prefix string, n int, isWanted func(shard int) bool) []string {
	var keys []string
	for _, service := range services {
		keys = append(keys, load.KeysWithPrefixIn(load.ServiceKey(service.Name, prefix), service.Shards, n, func(shard int) bool { return isWanted(service.First + shard) })...)
	}
	return keys
}

// Keys returns n keys for each shard of the cluster. prefix is a part of each of them. The first keys are of
// different services.
func (c *Cluster) Keys(prefix string, n int) []string {
	isWanted := func(int) bool { return true }
	if c.opts.Services == nil {
		return load.KeysWithPrefixIn(prefix, c.opts.Shards, n, isWanted)
	}
	keys := serviceKeys(c.ServiceRanges(), prefix, n, isWanted)
	rng := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // must be reproducible
	rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys
}

// ShardOf returns the shard of a key in the map of the cluster.
func (c *Cluster) ShardOf(key string) int {
	return int(history.ShardOf(key, c.opts.Shards, c.ServiceRanges()))
}
