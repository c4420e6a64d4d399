//go:build linux

package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
	"shardway/e2e/kit/load"
)

// servicesTest is a cluster of five nodes with three services of different size. Three of the nodes run two
// services.
type servicesTest struct {
	*testing.T
	*cluster.Cluster
}

// startServices starts the cluster. Each service is then spread evenly over the nodes that run it.
func startServices(t *testing.T) *servicesTest {
	t.Helper()
	return &servicesTest{T: t, Cluster: cluster.Start(t, cluster.Options{
		Binaries: binaries(t), Nodes: 5, Flags: []string{"--queue-wait", "3s"},
		Services: []cluster.Service{{Name: "chat", Shards: 48, Nodes: "abc"}, {Name: "default", Shards: 20, Nodes: "cde"}, {Name: "search", Shards: 7, Nodes: "ae"}},
	})}
}

// service returns the range of a service.
func (x *servicesTest) service(name string) history.Service {
	x.Helper()
	for _, service := range x.ServiceRanges() {
		if service.Name == name {
			return service
		}
	}
	x.Fatalf("no service %s", name)
	return history.Service{}
}

// count returns how many shards of a service a node owns; the node "" owns the orphaned shards.
func (x *servicesTest) count(shardMap cluster.Map, name, node string) (count int) {
	x.Helper()
	service := x.service(name)
	for shard := service.First; shard < service.First+service.Shards; shard++ {
		if shardMap.Owner(shard) == node {
			count++
		}
	}
	return count
}

// wantOnlyMovesFrom checks that only shards of a node have another owner than before.
func (x *servicesTest) wantOnlyMovesFrom(node *cluster.Node, before, after cluster.Map) {
	x.Helper()
	for _, move := range before.Moves(after) {
		if move.From != node.ID {
			x.Errorf("shard %d moved from %s to %s, and only %s was killed", move.Shard, move.From, move.To, node.ID)
		}
	}
}

// send sends a request for a key of a service through a node.
func (x *servicesTest) send(node *cluster.Node, service, key string) history.Response {
	x.Helper()
	return x.SendRequest(x.T, node, load.Request{Key: load.ServiceKey(service, key)})
}

// TestKilledNodeMovesOnlyItsShardsOfEachService kills a node that runs two services, starts it again, and
// kills both nodes of the smallest service. Clients of all services send requests through all nodes.
func TestKilledNodeMovesOnlyItsShardsOfEachService(t *testing.T) {
	t.Parallel()
	x := startServices(t)
	before := x.AwaitServing(t)
	running := x.Load(t, x.Nodes(), cluster.Traffic{Rate: 150})
	running.AwaitStarted(t, 150)

	victim := x.Node("c")
	others := x.Others(victim)
	running.SetTargets(others)
	victim.Kill(t)
	after := x.AwaitServedBy(t, others...)
	x.wantOnlyMovesFrom(victim, before, after)
	if moved, owned := len(before.Moves(after)), before.Counts()[victim.ID]; moved != owned {
		t.Errorf("%d shards moved, and the killed node owned %d", moved, owned)
	}
	victim.Start(t)
	back := x.AwaitServing(t)
	for _, move := range after.Moves(back) {
		if move.To != victim.ID {
			t.Errorf("shard %d moved from %s to %s when node %s returned", move.Shard, move.From, move.To, victim.ID)
		}
	}
	running.SetTargets(x.Nodes())
	running.AwaitStarted(t, 150)
	running.Finish(t)
}

// TestServiceWithoutNodeIsOrphaned kills both nodes of a service, one after the other. The requests of the
// service get the documented error. The other services keep their shards and serve.
func TestServiceWithoutNodeIsOrphaned(t *testing.T) {
	t.Parallel()
	x := startServices(t)
	before := x.AwaitServing(t)
	for _, id := range []string{"a", "e"} {
		victim := x.Node(id)
		victim.Kill(t)
		after := x.AwaitServedBy(t, x.Running()...)
		x.wantOnlyMovesFrom(victim, before, after)
		before = after
	}
	if orphaned := x.count(before, "search", ""); orphaned != 7 {
		t.Errorf("%d shards of search are orphaned, want 7", orphaned)
	}
	node := x.Node("b")
	for _, service := range []string{"chat", "default"} {
		if response := x.send(node, service, "key"); !response.OK() {
			t.Errorf("%s: %+v", service, response)
		}
	}
	response := x.send(node, "search", "key")
	if response.Status != http.StatusServiceUnavailable || response.Error != "queue-timeout" {
		t.Errorf("search: %d %s", response.Status, response.Error)
	}
	if !strings.Contains(response.Detail, "orphaned") {
		t.Errorf("search: %s", response.Detail)
	}

	returned := x.Node("e")
	returned.Start(t)
	x.AwaitServedBy(t, x.Running()...)
	if response := x.send(node, "search", "key"); !response.OK() || !strings.HasPrefix(response.App, returned.ID) {
		t.Errorf("search: %+v", response)
	}
	x.Check(t)
}

// TestServiceIsAddedToRunningCluster adds a service to the configuration of one node after the other, under load. The
// cluster has the service once the last node has loaded it. The other services keep their ranges and lose no request.
func TestServiceIsAddedToRunningCluster(t *testing.T) {
	t.Parallel()
	x := &servicesTest{T: t, Cluster: cluster.Start(t, cluster.Options{
		Binaries: binaries(t), Nodes: 3, Flags: []string{"--queue-wait", "5s"},
		Services: []cluster.Service{{Name: "chat", Shards: 20, Nodes: "abc"}, {Name: "search", Shards: 7, Nodes: "ab"}},
	})}
	running := x.Load(t, x.Nodes(), cluster.Traffic{Rate: 100})
	running.AwaitStarted(t, 100)

	x.AddService(t, cluster.Service{Name: "wiki", Shards: 300, Nodes: "bc"})
	for _, node := range x.Nodes() {
		running.SetTargets(x.Others(node))
		node.Stop(t)
		node.Start(t)
		node.AwaitStatus(t, "owns shards", func(status cluster.Status) bool { return status.State == "operational" && status.Shards.Owned > 0 })
	}
	running.SetTargets(x.Nodes())
	x.AwaitServing(t)
	for _, key := range []string{"one", "two", "three", "four"} {
		if response := x.send(x.Node("a"), "wiki", key); !response.OK() || strings.HasPrefix(response.App, "a") {
			t.Errorf("wiki: %+v", response)
		}
	}
	running.AwaitStarted(t, 100)
	running.Finish(t)
}
