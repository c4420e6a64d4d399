package appinstance

import (
	"context"
	"net"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	ackagent "shardway/ack/agent"
	"shardway/node/apphealth"
	"shardway/node/disk"
	"shardway/node/persist"
	"shardway/shardmap"
)

// Selection decides which app instances of this node may own shards. Only the goroutine of the
// agent uses it, except for Run. nil means that the node has a single instance.
type Selection struct {
	self     shardmap.NodeID
	health   *apphealth.Group
	watches  []*Watch // by instance; a watch is nil if restarts of the app do not matter
	selector ackagent.InstanceSelector
	log      zerolog.Logger
	// free has a bit for each instance that is not configured and no longer owns shards. stored
	// writes it to disk.
	free   uint32
	stored *persist.Value[uint32]
	// hasWarned is set if a warning about a format version without instances has been logged.
	hasWarned bool
}

// NewSelection returns the Selection of a node with several app instances. health and watches have an
// element for each instance.
func NewSelection(self shardmap.NodeID, dir *disk.Dir, health *apphealth.Group, watches []*Watch, log zerolog.Logger) *Selection {
	free, err := dir.FreeUpstreams()
	if err != nil {
		log.Warn().Err(err).Msg("free instance numbers not read")
	}
	return &Selection{
		self: self, health: health, watches: watches, log: log, free: free,
		stored: persist.New("free instance numbers", free, dir.StoreFreeUpstreams, log),
	}
}

// DialFunc opens a connection to an app instance.
type DialFunc = func(context.Context) (net.Conn, error)

// WrapDials wraps the functions with which the proxy dials the app instances, so that each result
// is reported to the health checker and the watch of the instance.
func WrapDials(health *apphealth.Group, watches []*Watch, first DialFunc, further []DialFunc) (wrappedFirst DialFunc, wrappedFurther []DialFunc) {
	wrap := func(instance int, dial DialFunc) DialFunc {
		checker := health.At(instance)
		if dial == nil || checker == nil {
			return nil
		}
		return checker.WatchDial(watches[instance].WrapDial(dial))
	}
	for i, dial := range further {
		wrappedFurther = append(wrappedFurther, wrap(i+1, dial))
	}
	return wrap(0, first), wrappedFurther
}

// Run writes the free numbers to the disk after each change, until ctx ends.
func (s *Selection) Run(ctx context.Context) { s.stored.Run(ctx) }

// AddTo adds the health of the instances to the observation. s may be nil.
func (s *Selection) AddTo(now time.Duration, observation *ackagent.Observation) {
	if s == nil {
		return
	}
	if !observation.State.FormatVersion().HasInstances() {
		s.addFirst(observation)
		return
	}
	committed := observation.State.Committed()
	checks := s.health.Checks()
	for i, check := range checks {
		switch {
		case check.Absent:
			observation.RemovedInstances = observation.RemovedInstances.With(shardmap.Instance(i))
		case check.Unhealthy:
			observation.UnhealthyInstances = observation.UnhealthyInstances.With(shardmap.Instance(i))
		}
	}
	health := s.selector.Update(now, checks, func(instance shardmap.Instance) bool {
		return committed.InstanceCount(s.self, instance) > 0
	})
	observation.Instances, observation.Unhealthy, observation.App = health.Instances, health.Unhealthy, health.App
	for _, watch := range s.watches[1:] {
		observation.InstancesStartedAfter = append(observation.InstancesStartedAfter, watch.startedAfter())
	}
}

// addFirst adds the health of the first instance, which has all of the node's shards before
// ack.InstancesFormatVersion is in force.
func (s *Selection) addFirst(observation *ackagent.Observation) {
	if !s.hasWarned {
		s.hasWarned = true
		s.log.Warn().Uint8("format_version", uint8(ack.InstancesFormatVersion)).Str("remedy", "update all nodes, then run shardway upgrade finalize").Msg("further app instances wait for upgrade")
	}
	first := s.health.Checks()[0]
	observation.Unhealthy, observation.App = first.Absent || first.Unhealthy, first.Health
}

// OnStateApplied is Watch.OnStateApplied for the instances after the first one. s may be nil.
func (s *Selection) OnStateApplied(observation *ackagent.Observation, hasLease bool) {
	if s == nil {
		return
	}
	for _, watch := range s.watches[1:] {
		watch.OnStateApplied(observation.State, hasLease)
	}
	if hasLease {
		s.recordFree(observation.State)
	}
}

// recordFree records the instances that are not configured and own no shards any more. Their
// numbers may then be given to another address. The node must have a lease, because state may
// otherwise be older than the map of a previous process of the node.
func (s *Selection) recordFree(state *ack.State) {
	if state.HasOpenProposal() {
		return
	}
	free := s.free
	for i := range s.health.Len() {
		if s.health.At(i) == nil && mayReuse(state.Committed(), s.self, shardmap.Instance(i)) {
			free |= 1 << i
		}
	}
	if free != s.free {
		s.free = free
		s.stored.Set(free)
	}
}

// mayReuse reports whether the instance owns no shards in the committed map and cannot get any in
// the next one.
func mayReuse(committed *shardmap.Map, self shardmap.NodeID, instance shardmap.Instance) bool {
	mayOwnShards := slices.ContainsFunc(committed.Members(), func(member shardmap.Member) bool {
		return member.ID == self && member.Instances.Has(instance)
	})
	return !mayOwnShards && committed.InstanceCount(self, instance) == 0
}
