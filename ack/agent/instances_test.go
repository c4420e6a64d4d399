package agent_test

import (
	"slices"
	"testing"
	"time"

	"shardway/ack"
	"shardway/ack/agent"
	"shardway/shardmap"
)

// instanceScene is an InstanceSelector with the checks of three instances.
type instanceScene struct {
	t        *testing.T
	selector agent.InstanceSelector
	now      time.Duration
	checks   []agent.InstanceCheck
	owns     map[shardmap.Instance]bool
}

func newInstanceScene(t *testing.T) *instanceScene {
	t.Helper()
	return &instanceScene{t: t, checks: make([]agent.InstanceCheck, 3), owns: map[shardmap.Instance]bool{0: true, 1: true, 2: true}}
}

// update updates the selector after d, and checks which instances may own shards.
func (s *instanceScene) update(d time.Duration, want ...shardmap.Instance) agent.InstanceHealth {
	s.t.Helper()
	s.now += d
	health := s.selector.Update(s.now, s.checks, func(instance shardmap.Instance) bool { return s.owns[instance] })
	if got := health.Instances.All(); !slices.Equal(got, want) {
		s.t.Errorf("after %v instances %v may own shards, want %v", s.now, got, want)
	}
	return health
}

func (s *instanceScene) fail(refused bool, instances ...int) {
	for _, i := range instances {
		s.checks[i] = agent.InstanceCheck{Unhealthy: true, Health: ack.AppHealth{Failing: true, Refused: refused, FlapCount: s.checks[i].Health.FlapCount + 1}}
	}
}

func (s *instanceScene) recover(instances ...int) {
	for _, i := range instances {
		s.checks[i] = agent.InstanceCheck{Health: ack.AppHealth{FlapCount: s.checks[i].Health.FlapCount}}
	}
}

func TestUnhealthyInstanceLosesItsShardsToHealthySiblings(t *testing.T) {
	s := newInstanceScene(t)
	s.update(0, 0, 1, 2)
	s.fail(false, 1)
	if health := s.update(time.Second, 0, 2); health.Unhealthy || health.App.Failing {
		t.Errorf("the app counts as failing: %+v", health)
	}
	s.recover(1)
	s.update(time.Second, 0, 1, 2)
	s.fail(true, 0, 1)
	s.update(time.Second, 2)
}

func TestInstanceWithoutAHealthySiblingKeepsItsShards(t *testing.T) {
	s := newInstanceScene(t)
	s.update(0, 0, 1, 2)
	// A dependency of all instances fails: the siblings are about to become unhealthy.
	s.checks[0].Health.Failing, s.checks[2].Health.Failing = true, true
	s.fail(false, 1)
	if health := s.update(time.Second, 0, 1, 2); health.Unhealthy || !health.App.Failing {
		t.Errorf("health %+v, want failing", health)
	}
	s.fail(false, 0, 2)
	if health := s.update(time.Second, 0, 1, 2); !health.Unhealthy || health.App.Refused {
		t.Errorf("health %+v, want unhealthy", health)
	}
	// They recover one after the other.
	s.recover(2)
	s.update(time.Second, 0, 1, 2)
	s.owns[0] = false
	s.update(time.Second, 1, 2)
	s.update(5*time.Second, 2)
}

func TestRefusingInstanceLosesItsShardsWhileOthersRecover(t *testing.T) {
	s := newInstanceScene(t)
	s.update(0, 0, 1, 2)
	s.fail(true, 0)
	s.fail(false, 1, 2)
	if health := s.update(0, 0, 1, 2); health.App.Refused {
		t.Error("the app counts as refusing although two instances do not refuse")
	}
	s.recover(1)
	s.update(time.Second, 1, 2)
}

func TestFlappingInstanceReturnsLaterEachTime(t *testing.T) {
	s := newInstanceScene(t)
	s.update(0, 0, 1, 2)
	for _, pause := range []time.Duration{0, 2 * time.Second, 4 * time.Second} {
		s.fail(true, 1)
		s.update(time.Second, 0, 2)
		s.recover(1)
		if pause > 0 {
			s.update(time.Second, 0, 2)
			s.update(pause-time.Millisecond, 0, 2)
			s.update(time.Millisecond, 0, 1, 2)
			continue
		}
		s.update(time.Second, 0, 1, 2)
	}
}

func TestHeldBackInstancesOwnShardsIfNoOtherIsHealthy(t *testing.T) {
	s := newInstanceScene(t)
	s.update(0, 0, 1, 2)
	s.fail(true, 0)
	s.update(time.Second, 1, 2)
	s.recover(0)
	s.update(time.Second, 0, 1, 2)
	s.fail(true, 0)
	s.update(time.Second, 1, 2)
	s.recover(0)
	s.fail(true, 1, 2)
	s.update(time.Second, 0)
}

func TestAbsentInstanceOwnsNothing(t *testing.T) {
	s := newInstanceScene(t)
	s.update(0, 0, 1, 2)
	s.checks[0].Absent = true
	s.update(time.Second, 1, 2)
	s.fail(true, 1, 2)
	s.update(time.Second, 1, 2)
}

func TestNewProcessOfANodeSelectsTheHealthyInstances(t *testing.T) {
	s := newInstanceScene(t)
	s.fail(false, 0)
	s.update(0, 1, 2)
	all := newInstanceScene(t)
	all.fail(true, 0, 1, 2)
	if health := all.update(0, 0, 1, 2); !health.Unhealthy || !health.App.Refused {
		t.Errorf("health %+v", health)
	}
}
