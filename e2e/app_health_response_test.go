//go:build linux

package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"shardway/e2e/kit/cluster"
)

// TestAppWithUnexpectedHealthResponseLosesItsShards configures the whole health check: method, host, header, status and
// body. The apps repeat the request in the body, so they are healthy only if the nodes send the configured request. An
// app with another status or body is unhealthy, even if its status is one that the default check accepts. Its shards move
// to the other instance of its node, or to other nodes if there is no other instance. Then they return.
func TestAppWithUnexpectedHealthResponseLosesItsShards(t *testing.T) {
	t.Parallel()
	const status, method, host, accept = http.StatusServiceUnavailable, http.MethodPost, "app.example:8080", "application/json, */*;q=0.5"
	c := cluster.New(t, cluster.Options{Binaries: binaries(t), Shards: shards, Flags: []string{
		"--health", "/health", "--health-interval", "100ms",
		"--health-method", method, "--health-host", host, "--health-header", "Accept: " + accept, "--health-status", "204,500-503",
		"--health-body", fmt.Sprintf(`{"method":%q,"host":%q,"accept":%q,"text":%q}`, method, host, accept, cluster.HealthyText),
	}})
	for range 3 {
		c.Prepare(t, "--bootstrap-expect", "3")
	}
	pair, single := c.Nodes()[0], c.Nodes()[1]
	pair.AddInstance(t)
	c.AddJoinFlags()
	for _, app := range append([]*cluster.App{single.App, c.Nodes()[2].App}, pair.Instances...) {
		app.SetHealth(t, status, cluster.HealthyText)
	}
	for _, node := range c.Nodes() {
		node.Start(t)
	}
	x := &instancesTest{T: t, Cluster: c}
	c.AwaitServing(t)
	first, second, alone := cluster.Place{Node: pair.ID, Instance: 1}, cluster.Place{Node: pair.ID, Instance: 2}, cluster.Place{Node: single.ID, Instance: 1}
	isEven := func(places []cluster.Place) bool {
		counts := map[cluster.Place]int{}
		for _, place := range places {
			counts[place]++
		}
		return len(counts) == 4 && min(counts[first], counts[second]) >= shards/6 && min(counts[alone], shards-counts[first]-counts[second]-counts[alone]) >= shards/3
	}
	for _, unexpected := range []struct {
		status int
		text   string
	}{{http.StatusOK, cluster.HealthyText}, {status, "degraded"}} {
		for _, failing := range []struct {
			app   *cluster.App
			place cluster.Place
		}{{pair.Instances[0], first}, {pair.Instances[1], second}, {single.App, alone}} {
			before := x.awaitPlaces("all apps own as many shards as they should", isEven)
			failing.app.SetHealth(t, unexpected.status, unexpected.text)
			after := x.awaitPlaces(fmt.Sprintf("the shards of %v have moved after the response %v", failing.place, unexpected), func(places []cluster.Place) bool {
				return !slices.Contains(places, failing.place)
			})
			for shard := range before {
				hasLeftNode := before[shard] == failing.place && after[shard].Node != failing.place.Node
				if before[shard] == failing.place && hasLeftNode != (failing.place == alone) {
					t.Errorf("shard %d moved from %v to %v", shard, before[shard], after[shard])
				}
				if before[shard] != failing.place && after[shard] != before[shard] {
					t.Errorf("shard %d moved from %v to %v, and %v has failed", shard, before[shard], after[shard], failing.place)
				}
			}
			failing.app.SetHealth(t, status, cluster.HealthyText)
		}
	}
	x.awaitPlaces("the shards have returned", isEven)
}
