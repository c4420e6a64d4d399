package agent

import (
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// instanceRecovery is how long unhealthy instances keep their shards after no instance of the node
// was healthy. Instances that share a failed dependency recover one by one, and their shards should
// not move back and forth during that time.
const instanceRecovery = 5 * time.Second

// InstanceCheck is the result of the health checks of one app instance.
type InstanceCheck struct {
	// Unhealthy is set if the instance does not respond. An instance without a successful check is
	// unhealthy.
	Unhealthy bool
	// Health contains further results. Its FlapCount counts the failures of this instance.
	Health ack.AppHealth
	// Absent is set if the instance is not configured. It owns no shards.
	Absent bool
}

// mayFail reports whether the instance is unhealthy, or may be soon because its last check failed.
func (ic InstanceCheck) mayFail() bool { return ic.Absent || ic.Unhealthy || ic.Health.Failing }

// InstanceHealth is the health of all app instances of a node, for Observation.
type InstanceHealth struct {
	// Instances are those that may own shards.
	Instances shardmap.InstanceSet
	// Unhealthy and App describe the app as a whole. It is unhealthy if all instances are.
	Unhealthy bool
	App       ack.AppHealth
}

// InstanceSelector decides which app instances of a node may own shards. An unhealthy instance
// loses its shards to its siblings if one of them is healthy. docs/internals/protocol-instances.md
// describes the rules. The zero value is ready to use.
//
// It only decides where shards move, never whether the node may serve one. The caller must
// serialize the calls. Times must be of one clock that never runs backwards.
type InstanceSelector struct {
	selected [shardmap.MaxInstances]bool
	// recoveredAt is, by instance, when it became healthy; negative if it is not.
	recoveredAt [shardmap.MaxInstances]time.Duration
	// noneHealthyAt is when no instance was healthy last; negative means never.
	noneHealthyAt time.Duration
	noneHealthy   bool
	failures      ack.FlapCounter // times at which no instance was healthy
	started       bool
}

// Update applies the results of the health checks, by instance. ownsShards reports whether an
// instance owns shards in the committed map.
func (is *InstanceSelector) Update(now time.Duration, checks []InstanceCheck, ownsShards func(shardmap.Instance) bool) InstanceHealth {
	isFirst := !is.started
	if isFirst {
		is.started, is.noneHealthyAt = true, -1
	}
	anyHealthy, anyPasses := false, false
	for i, check := range checks {
		isHealthy := !check.Absent && !check.Unhealthy
		anyHealthy = anyHealthy || isHealthy
		anyPasses = anyPasses || !check.mayFail()
		switch {
		case !isHealthy:
			is.recoveredAt[i] = -1
		case isFirst || is.recoveredAt[i] < 0:
			is.recoveredAt[i] = now
		}
	}
	if !anyHealthy {
		return is.updateAllUnhealthy(now, checks)
	}
	is.noneHealthy = false
	for i, check := range checks {
		is.selected[i] = is.mayOwnShards(now, shardmap.Instance(i), check, anyPasses, ownsShards)
	}
	if !is.anySelected() { // all healthy instances are held back
		for i, check := range checks {
			is.selected[i] = !check.Absent && !check.Unhealthy
		}
	}
	return InstanceHealth{Instances: is.set(), App: ack.AppHealth{Failing: !anyPasses, FlapCount: is.failures.Count(now)}}
}

// updateAllUnhealthy applies the results of health checks without any healthy instance, and returns the
// health of the app. The set of instances is kept, because moving shards would help no request.
func (is *InstanceSelector) updateAllUnhealthy(now time.Duration, checks []InstanceCheck) InstanceHealth {
	if !is.noneHealthy {
		is.noneHealthy = true
		is.failures.Add(now)
	}
	is.noneHealthyAt = now
	allRefuse, allStart := true, true
	for i, check := range checks {
		if check.Absent {
			is.selected[i] = false
			continue
		}
		allRefuse = allRefuse && check.Health.Refused
		allStart = allStart && check.Health.Starting
	}
	if !is.anySelected() {
		for i, check := range checks {
			is.selected[i] = !check.Absent
		}
	}
	app := ack.AppHealth{Failing: true, Refused: allRefuse, Starting: allStart, FlapCount: is.failures.Count(now)}
	return InstanceHealth{Instances: is.set(), Unhealthy: true, App: app}
}

// mayOwnShards reports whether an instance may own shards while at least one instance is healthy.
// anyPasses is set if the last check of a healthy instance succeeded.
func (is *InstanceSelector) mayOwnShards(now time.Duration, instance shardmap.Instance, check InstanceCheck, anyPasses bool, ownsShards func(shardmap.Instance) bool) bool {
	wasSelected := is.selected[instance]
	switch {
	case check.Absent:
		return false
	case !check.Unhealthy:
		pauseEnd := is.recoveredAt[instance] + ack.FlapPause(check.Health.FlapCount)
		return wasSelected || now >= pauseEnd
	case check.Health.Refused || !wasSelected:
		return false
	}
	// The instances recover at slightly different times if their failure had the same cause.
	allFailedRecently := is.noneHealthyAt >= 0 && now-is.noneHealthyAt < instanceRecovery
	return !anyPasses || allFailedRecently && ownsShards(instance)
}

// anySelected reports whether any instance may own shards.
func (is *InstanceSelector) anySelected() bool {
	for _, selected := range is.selected {
		if selected {
			return true
		}
	}
	return false
}

// set returns the instances that may own shards. There must be at least one.
func (is *InstanceSelector) set() shardmap.InstanceSet {
	all := shardmap.InstancesUpTo(shardmap.MaxInstances)
	rest, _ := all.Without(func(instance shardmap.Instance) bool { return !is.selected[instance] })
	return rest
}
