package node_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"shardway/admin/api"
	"shardway/diagnosis"
	"shardway/event"
	"shardway/node"
	"shardway/node/disk"
	"shardway/shardmap"
)

// instancesOf returns the app instances of a node, as node p lists them.
func (p *process) instancesOf(id string) []api.Instance {
	for _, listed := range p.node.API().Status().Nodes {
		if listed.ID == id {
			return listed.Instances
		}
	}
	return nil
}

// instanceFindings returns the findings about app instances at a node.
func (p *process) instanceFindings() (findings []diagnosis.Finding) {
	for _, finding := range p.node.API().Status().Findings {
		if finding.Code == diagnosis.InstanceUnhealthy {
			findings = append(findings, finding)
		}
	}
	return findings
}

func TestFailedInstanceIsInStatusEventsAndMetrics(t *testing.T) {
	bubble(t, func(w *world) {
		health := startInstances(w)
		b := w.all["b"]
		health["b"].refuses[1].Store(true)
		w.until("the shards have moved", func() bool { return w.committed().InstanceCount("b", 1) == 0 })
		time.Sleep(time.Second)
		if findings := b.instanceFindings(); len(findings) > 0 {
			w.t.Errorf("a finding after a short failure: %v", findings)
		}
		w.untilSettled("a", "b", "c")
		for _, p := range w.running() {
			w.until("the instance is listed as unhealthy", func() bool {
				listed := p.instancesOf("b")
				return len(listed) == 3 && listed[1] == api.Instance{Number: 2, State: "unhealthy"} && listed[0].State == "active" && listed[0].Shards > 0
			})
			w.until("the finding names the instance", func() bool {
				findings := p.instanceFindings()
				return len(findings) == 1 && strings.Contains(findings[0].String(), "instance-unhealthy: the app instance b/2")
			})
			moves := 0
			for _, shard := range p.node.API().Shards().Shards {
				if shard.Instance == 0 || shard.Owner == "b" && shard.Instance == 2 {
					w.t.Errorf("shard %+v at %s", shard, p.name)
				}
				for _, move := range p.node.Moves(shard.Shard) {
					if move.Reason == "instance-unhealthy" {
						moves++
						if move.From != "b" || move.FromInstance != 2 || move.To != "b" || move.ToInstance == 2 || move.ToInstance == 0 {
							w.t.Errorf("move %+v at %s", move, p.name)
						}
						if shard.Previous != "b" || shard.PreviousInstance != 2 {
							w.t.Errorf("shard %+v at %s, want the previous owner b/2", shard, p.name)
						}
					}
				}
			}
			if moves == 0 {
				w.t.Errorf("%s has no record of the moves", p.name)
			}
		}
		for _, p := range []*process{b, w.leader()} {
			_, all := p.events(0)
			if !slices.ContainsFunc(all, func(e event.Event) bool { return e.Kind == event.AppUnhealthy && e.Node == "b" && e.Instance == 2 }) {
				w.t.Errorf("%s has no event about b/2", p.name)
			}
		}
		_, all := b.events(0)
		last := all[slices.IndexFunc(all, func(e event.Event) bool { return e.Kind == event.MapCommitted && e.Reason == "instance-unhealthy" })].Change
		for _, moves := range last.Moves {
			if moves.From != "b" || moves.FromInstance != 2 || moves.To != "b" || moves.ToInstance == 0 {
				w.t.Errorf("moves %+v", moves)
			}
		}
		if last.Moved == 0 || last.Gained+last.Released > 0 {
			w.t.Errorf("a move within a node counts as gained or released: %+v", last)
		}
		committed, metrics := w.committed(), b.gathered()
		for instance, name := range []string{"1", "2", "3"} {
			shards := float64(committed.InstanceCount("b", shardmap.Instance(instance)))
			if got := value(metrics, "shardway_app_instance_shards_owned", name); got != shards {
				w.t.Errorf("instance %s owns %v shards in the metrics, want %v", name, got, shards)
			}
			isHealthy := 1.0
			if instance == 1 {
				isHealthy = 0
			}
			if got := value(metrics, "shardway_app_instance_healthy", name); got != isHealthy {
				w.t.Errorf("health of instance %s is %v in the metrics", name, got)
			}
		}
		health["b"].refuses[1].Store(false)
		for _, p := range w.running() {
			w.until("the finding ends", func() bool { return len(p.instanceFindings()) == 0 && p.instancesOf("b")[1].State == "active" })
		}
		_, all = w.leader().events(0)
		if !slices.ContainsFunc(all, func(e event.Event) bool { return e.Kind == event.AppHealthy && e.Node == "b" && e.Instance == 2 }) {
			w.t.Error("no event that b/2 is healthy again")
		}
		w.all["c"].kill()
		w.until("the instances of a failed node are not listed", func() bool { return w.committed().ShardCount("c") == 0 && b.instancesOf("c") == nil })
	})
}

// An instance that is no longer configured is no failure.
func TestRemovedInstanceIsNotListed(t *testing.T) {
	bubble(t, func(w *world) {
		withInstances(w)
		tune := w.tune
		var dirs []*disk.Dir
		w.tune = func(o *node.Options) {
			tune(o)
			o.FurtherInstances[1].Check = nil
			dirs = append(dirs, o.Dir)
		}
		w.start("a")
		w.start("b")
		w.start("c")
		w.untilSettled("a", "b", "c")
		w.until("the other instances own shards", func() bool {
			m := w.committed()
			return m.InstanceCount("b", 0) > 0 && m.InstanceCount("b", 1) > 0
		})
		for _, p := range w.running() {
			w.until("two instances are listed", func() bool {
				listed := p.instancesOf("b")
				return len(listed) == 2 && listed[0].State == "active" && listed[1].State == "active"
			})
			if findings := p.instanceFindings(); len(findings) > 0 {
				w.t.Errorf("findings %v", findings)
			}
		}
		w.until("the number may get another address", func() bool {
			free, err := dirs[1].FreeUpstreams()
			return err == nil && free == 1<<2
		})
	})
}

func TestNodeWithOneInstanceListsNone(t *testing.T) {
	three(t, func(w *world) {
		p := w.follower()
		for _, listed := range p.node.API().Status().Nodes {
			if listed.Instances != nil {
				w.t.Errorf("instances %+v", listed.Instances)
			}
		}
		for _, shard := range p.node.API().Shards().Shards {
			if shard.Instance+shard.ToInstance+shard.PreviousInstance != 0 {
				w.t.Errorf("shard %+v", shard)
			}
		}
		for name := range p.gathered() {
			if strings.HasPrefix(name, "shardway_app_instance_") {
				w.t.Errorf("the metric %s of a node with one instance", name)
			}
		}
	})
}
