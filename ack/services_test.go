package ack_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"shardway/ack"
	"shardway/ack/agent"
	"shardway/ack/leader"
	"shardway/shardmap"
)

// reportServices adds the services that the node runs to its observation.
func (a *actor) reportServices(observation *agent.Observation) {
	if a.services == nil {
		return
	}
	observation.HasServices = true
	for _, service := range observation.State.Services() {
		if instances, runs := a.services[service.Name]; runs {
			observation.Services = append(observation.Services, ack.ServiceReport{ID: service.ID, Instances: instances, Unhealthy: a.unhealthyServices[service.Name]})
		}
	}
	slices.SortFunc(observation.Services, func(x, y ack.ServiceReport) int { return int(x.ID) - int(y.ID) })
}

// instancesOf returns a set of app instances.
func instancesOf(instances ...shardmap.Instance) shardmap.InstanceSet {
	bits := ack.InstanceBits(0)
	for _, instance := range instances {
		bits = bits.With(instance)
	}
	return shardmap.InstanceSet(bits).Normalized()
}

// runServices makes the node run the services, each with one app instance, in the given order.
func (s *stage) runServices(id shardmap.NodeID, services ...string) {
	a := s.actor(id)
	a.services, a.unhealthyServices = map[string]shardmap.InstanceSet{}, map[string]bool{}
	var all []shardmap.Instance
	for i, name := range services {
		a.services[name] = instancesOf(shardmap.Instance(i))
		all = append(all, shardmap.Instance(i))
	}
	a.instances = instancesOf(all...)
}

// servingServices returns a stage on which a and b run the service default, b and c the service chat of six
// shards, and c and d the service mail of three shards. The node a leads.
func servingServices(t *testing.T) *stage {
	t.Helper()
	s := newStage(t, "a", "b", "c", "d")
	s.runServices("a", "default")
	s.runServices("b", "default", "chat")
	s.runServices("c", "chat", "mail")
	s.runServices("d", "mail")
	s.start("a", "b", "c", "d")
	s.elect("a")
	s.run(600 * ms)
	s.changePolicy("a", addService("chat", 6), addService("mail", 3))
	s.until("all services have owners", func() bool {
		return s.owners("default") == "a:6 b:6" && s.owners("chat") == "b:3 c:3" && strings.Contains("c:1 d:2 c:2 d:1", s.owners("mail")) && s.owners("mail") != ""
	})
	s.run(time.Second)
	s.lines = nil
	return s
}

func addService(name string, shards int) ack.Change {
	return ack.Change{Kind: ack.ChangeAddService, Service: name, Shards: shards}
}

func removeService(name string) ack.Change {
	return ack.Change{Kind: ack.ChangeRemoveService, Service: name}
}

// owners returns the number of shards of the service that each node owns in the committed map; empty while
// a proposal is open.
func (s *stage) owners(name string) string {
	service, _ := s.state.Service(name)
	counts := map[shardmap.NodeID]int{}
	for shard := service.First; int(shard) < service.End(); shard++ {
		counts[s.state.Committed().Owner(shard)]++
	}
	var texts []string
	for _, id := range slices.Sorted(maps.Keys(counts)) {
		texts = append(texts, fmt.Sprintf("%s:%d", id, counts[id]))
	}
	if s.state.HasOpenProposal() {
		return ""
	}
	return strings.Join(texts, " ")
}

// wantOnlyMovesFrom fails the test if a shard has moved since before that did not belong to the node in
// the service; an empty name means in any service.
func (s *stage) wantOnlyMovesFrom(before *shardmap.Map, id shardmap.NodeID, name string) {
	s.t.Helper()
	for _, move := range shardmap.Diff(before, s.state.Committed()) {
		service, _ := s.state.ServiceOf(move.Shard)
		if move.From != id || name != "" && service.Name != name {
			s.t.Errorf("shard %d of service %s moved from %q to %q:\n%s", move.Shard, service.Name, move.From, move.To, s)
		}
	}
}

func TestServicesShareTheMap(t *testing.T) {
	s := servingServices(t)
	if got := s.state.Committed().Len(); got != 21 {
		t.Errorf("the map has %d shards, want 21", got)
	}
	committed := s.state.Committed()
	for shard := range shardmap.Shard(committed.Len()) {
		service, _ := s.state.ServiceOf(shard)
		if instances := s.actor(committed.Owner(shard)).services[service.Name]; !instances.Has(committed.Instance(shard)) {
			t.Errorf("shard %d of %s is at %s", shard, service.Name, committed.OwnerInstanceID(shard))
		}
	}
	s.crash("c")
	s.until("the shards of c have other owners", func() bool { return s.owners("chat") == "b:6" && s.owners("mail") == "d:3" })
	s.wantOnlyMovesFrom(committed, "c", "")
}

func TestElectionMovesNoShardOfAService(t *testing.T) {
	s := servingServices(t)
	before := s.state.Committed()
	s.elect("d")
	s.run(5 * time.Second)
	if moves := shardmap.Diff(before, s.state.Committed()); len(moves) > 0 {
		t.Errorf("an election moved %v:\n%s", moves, s)
	}
	if s.state.Committed().Epoch() == before.Epoch() {
		t.Error("the new leader has committed no map")
	}
}

func TestUnhealthyServiceLosesOnlyItsShards(t *testing.T) {
	s := servingServices(t)
	s.runServices("a", "default", "chat") // so most apps of the service are healthy
	s.until("a runs chat", func() bool { return s.owners("chat") == "a:2 b:2 c:2" })
	before := s.state.Committed()
	s.actor("b").unhealthyServices["chat"] = true
	s.until("b has no shards of chat", func() bool { return s.owners("chat") == "a:3 c:3" })
	s.wantOnlyMovesFrom(before, "b", "chat")
	s.actor("b").unhealthyServices["chat"] = false
	s.until("b has shards of chat again", func() bool { return s.owners("chat") == "a:2 b:2 c:2" })
}

// If most apps of a service are unhealthy, moves would not help. Apps of other services do not count.
func TestServiceKeepsItsShardsIfMostOfItsAppsAreUnhealthy(t *testing.T) {
	s := servingServices(t)
	before := s.state.Committed()
	s.actor("b").unhealthyServices["chat"], s.actor("c").unhealthyServices["chat"] = true, true
	s.run(10 * time.Second)
	if moves := shardmap.Diff(before, s.state.Committed()); len(moves) > 0 {
		t.Errorf("moves between unhealthy apps: %v", moves)
	}
	s.actor("d").unhealthyServices["mail"], s.actor("d").unhealthy = true, true // its only service
	s.runServices("a", "default", "mail")
	s.until("d has no shards", func() bool { return s.owners("mail") == "a:2 c:1" || s.owners("mail") == "a:1 c:2" })
	if s.state.Committed().IsMember("d") || s.owners("chat") != "b:3 c:3" {
		t.Errorf("d is a member: %v, owners of chat: %s", s.state.Committed().IsMember("d"), s.owners("chat"))
	}
}

func TestServiceWithoutNodesHasNoOwners(t *testing.T) {
	s := servingServices(t)
	before := s.state.Committed()
	s.runServices("d", "chat")
	s.crash("c")
	s.until("mail has no owners", func() bool { return s.owners("mail") == ":3" && s.owners("chat") == "b:3 d:3" })
	for _, move := range shardmap.Diff(before, s.state.Committed()) {
		if service, _ := s.state.ServiceOf(move.Shard); service.Name == "default" {
			t.Errorf("shard %d of another service moved", move.Shard)
		}
	}
	s.begin("c")
	s.until("mail has an owner again", func() bool { return s.owners("mail") == "c:3" })
}

func TestNodeThatRestartsInPlaceKeepsItsShardsOfAllServices(t *testing.T) {
	s := servingServices(t)
	before := s.state.Committed()
	c := s.actor("c")
	c.goodbye, c.back = true, 20*time.Second
	s.until("c restarts", func() bool { return s.state.Restarting("c") })
	c.up = false
	s.runServices("b", "default") // makes a map change
	s.until("chat has no owner but c", func() bool { return s.owners("chat") == ":3 c:3" })
	s.wantOnlyMovesFrom(before, "b", "chat")
	s.begin("c")
	s.until("c serves", func() bool { return s.owners("chat") == "c:6" })
	for shard := range before.Shards("c") {
		if !before.HasSameOwner(s.state.Committed(), shard) || before.OwnedSince(shard) != s.state.Committed().OwnedSince(shard) {
			t.Errorf("shard %d of the restarted node has another owner or epoch", shard)
		}
	}
}

func TestServiceIsRemovedAfterItsNodes(t *testing.T) {
	s := servingServices(t)
	_, _, err := s.leaders["a"].turn.ChangePolicy([]ack.Change{removeService("mail")})
	if failed := (*ack.ServiceError)(nil); !errors.As(err, &failed) || !errors.Is(err, ack.ErrServiceRuns) || !slices.Equal(failed.Nodes, []shardmap.NodeID{"c", "d"}) || !strings.Contains(err.Error(), "[c d]") {
		t.Errorf("removal of a running service: %v", err)
	}
	s.runServices("c", "chat")
	s.runServices("d", "chat")
	s.run(stageTick)
	s.until("mail has no owners", func() bool { return s.owners("mail") == ":3" })
	s.changePolicy("a", removeService("mail"))
	s.run(time.Second)
	if _, found := s.state.Service("mail"); found || s.state.Committed().Len() != 21 {
		t.Errorf("removed: %v, the map has %d shards", !found, s.state.Committed().Len())
	}
	s.runServices("d", "chat", "news")
	s.changePolicy("a", addService("news", 2))
	s.until("news has an owner", func() bool { return s.owners("news") == "d:2" })
	if news, _ := s.state.Service("news"); news.First != 18 || news.ID != 3 {
		t.Errorf("news is %+v, want the range of mail with another ID", news)
	}
}

// A node without services runs the default service.
func TestNodeWithoutServicesRunsTheDefaultService(t *testing.T) {
	s := serving(t, "a", "b")
	before := s.state.Committed()
	s.changePolicy("a", addService("chat", 4))
	s.until("the map is longer", func() bool { return s.state.Committed().Len() == 16 })
	s.run(time.Second)
	if s.owners("chat") != ":4" || s.owners("default") != "a:6 b:6" || len(shardmap.Diff(before, s.state.Committed())) > 0 {
		t.Errorf("owners of chat %q, of default %q", s.owners("chat"), s.owners("default"))
	}
	if reason := s.state.ProposalReason(); reason != "service" {
		t.Errorf("the reason of the longer map is %q", reason)
	}
	s.runServices("b", "chat")
	s.until("b runs chat only", func() bool { return s.owners("chat") == "b:4" && s.owners("default") == "a:12" })
	s.runServices("b")
	s.until("b runs nothing", func() bool { return s.owners("chat") == ":4" && s.owners("default") == "a:12" })
	if s.actor("b").machine.LeaseRemaining(s.now) <= 0 {
		t.Error("a node that runs no service has no lease: it could not forward requests")
	}
}

// The leader creates the list of services when a node reports services. A node must not own shards of the
// default service if its configuration does not contain it.
func TestNodeWithOtherServicesOwnsNothingOfTheDefaultService(t *testing.T) {
	s := newStage(t, "a", "b")
	s.runServices("b", "chat")
	s.start("a", "b")
	s.elect("a")
	s.until("a owns everything", func() bool { return s.owners("default") == "a:12" })
	s.run(5 * time.Second)
	if !s.state.HasServices() || len(s.state.Services()) != 1 || s.owners("default") != "a:12" {
		t.Errorf("services %v, owners %s", s.state.Services(), s.owners("default"))
	}
}

// The leader adds a service once all nodes have loaded a key configuration that names it. The service exists before the key
// configuration becomes active.
func TestServiceIsAddedOnceAllNodesHaveLoadedIt(t *testing.T) {
	s := servingByK0(t, "a", "b", "c")
	const keys = "k1 chat=4 mail=2"
	s.loads(keys, "a", "b")
	s.run(5 * time.Second)
	if _, exists := s.state.Service("chat"); exists {
		t.Errorf("the service was added before c had loaded it:\n%s", s)
	}
	s.loads(keys, "c")
	s.until("the services exist", func() bool { return len(s.state.Services()) == 3 })
	if s.state.KeyConfig() != "k0" {
		t.Error("the key configuration is active before its services exist")
	}
	s.until("the keys are active", func() bool { return s.state.KeyConfig() == keys && s.state.Committed().Len() == 18 })
	index := s.state.Policy().ChangedIndex
	s.loads("k2 chat=5", "a", "b", "c") // another number of shards has no effect
	s.until("the keys are active", func() bool { return s.state.KeyConfig() == "k2 chat=5" })
	s.run(5 * time.Second)
	if chat, _ := s.state.Service("chat"); chat.Shards != 4 || s.state.Policy().ChangedIndex != index {
		t.Errorf("chat is %+v, and entry %d changed the services:\n%s", chat, s.state.Policy().ChangedIndex, s)
	}
}

// The routes of a service that cannot be added stay inactive. Its requests belong to the other services until then.
func TestRoutesOfServiceThatCannotBeAddedStayInactive(t *testing.T) {
	s := servingByK0(t, "a", "b", "c")
	s.loads("k1 chat=65536", "a", "b", "c") // the default service has shards, too
	s.run(5 * time.Second)
	if _, exists := s.state.Service("chat"); exists || s.state.KeyConfig() != "k0" {
		t.Errorf("the key configuration %q is active, want k0:\n%s", s.state.KeyConfig(), s)
	}
}

// A shard that the app of a service fails to acquire moves to another node that runs the service.
func TestUnacquiredShardMovesWithinItsService(t *testing.T) {
	s := servingServices(t)
	service, _ := s.state.Service("mail")
	shard := service.First
	owner := s.state.Committed().Owner(shard)
	l := s.leaders["a"]
	s.until("another owner has the shard", func() bool {
		hb := s.beat(s.actor(owner))
		hb.UnacquiredShards = []shardmap.Shard{shard}
		hb.Number += 1000
		s.step(l, leader.HeartbeatReceived{Heartbeat: hb, From: "x:1"})
		s.run(stageTick)
		return s.state.Committed().Owner(shard) != owner
	})
	if to := s.state.Committed().Owner(shard); to != "c" && to != "d" {
		t.Errorf("shard %d of mail moved to %q", shard, to)
	}
}
