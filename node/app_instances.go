package node

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	ackagent "shardway/ack/agent"
	"shardway/node/apphealth"
	"shardway/node/eventlog"
	"shardway/node/persist"
	"shardway/shardmap"
)

// AppInstance contains the functions with which a node watches one of its app instances.
type AppInstance struct {
	// Check makes one health check of the instance. nil means that the instance is not configured: its
	// number belonged to an address that the configuration no longer contains.
	Check func(ctx context.Context) error
	// Reported returns the name of the app process, as Options.AppInstance does.
	Reported func() string
}

// instanceSelection decides which app instances of this node may own shards. Only the goroutine of
// agent.run uses it. nil means that the node has one instance.
type instanceSelection struct {
	self     shardmap.NodeID
	health   *apphealth.Group
	watches  []*appWatch // by instance; a watch is nil if restarts of the app do not matter
	selector ackagent.InstanceSelector
	log      zerolog.Logger
	// free has one bit for each instance that is not configured and owns no shards any more. stored
	// writes it to the disk.
	free   uint32
	stored *persist.Value[uint32]
	// hasWarned means that a warning about a format version without instances has been logged.
	hasWarned bool
}

// appIsInProcess reports whether the app runs in this process, or the node is a gateway. A node whose
// first instance is not configured has further ones.
func (o *Options) appIsInProcess() bool { return o.CheckApp == nil && len(o.FurtherInstances) == 0 }

// newAppHealth creates the watches and the checkers of all app instances.
func (n *Node) newAppHealth() {
	instances := append([]AppInstance{{Check: n.options.CheckApp, Reported: n.options.AppInstance}}, n.options.FurtherInstances...)
	n.appWatches = make([]*appWatch, len(instances))
	n.appWatches[0] = newAppWatch(&n.options, n.fsm.state.Load)
	if n.options.appIsInProcess() {
		return
	}
	checkers := make([]*apphealth.Checker, len(instances))
	for i, instance := range instances {
		if i > 0 && n.appWatches[0] != nil {
			n.appWatches[i] = n.appWatches[0].forInstance(&n.options, shardmap.Instance(i))
		}
		if instance.Check == nil {
			continue
		}
		log := n.options.Log
		if len(instances) > 1 {
			log = log.With().Int("instance", shardmap.Instance(i).Number()).Logger()
		}
		check := n.appWatches[i].wrapCheck(instance.Check, instance.Reported)
		checkers[i] = apphealth.NewChecker(check, cmp.Or(n.options.Health, apphealth.DefaultSettings()), &n.scheduler, log, func() { n.onInstanceHealthChange(shardmap.Instance(i)) })
	}
	n.health = apphealth.NewGroup(checkers...)
	if len(instances) > 1 {
		n.instances = newInstanceSelection(n.self, &n.options, n.health, n.appWatches)
	}
}

// newInstanceSelection returns the instanceSelection of a node with several app instances.
func newInstanceSelection(self shardmap.NodeID, o *Options, health *apphealth.Group, watches []*appWatch) *instanceSelection {
	free, err := o.Dir.FreeUpstreams()
	if err != nil {
		o.Log.Warn().Err(err).Msg("free instance numbers not read")
	}
	return &instanceSelection{
		self: self, health: health, watches: watches, log: o.Log, free: free,
		stored: persist.New("free instance numbers", free, o.Dir.StoreFreeUpstreams, o.Log),
	}
}

// onInstanceHealthChange is called when an app instance has become healthy or unhealthy.
func (n *Node) onInstanceHealthChange(instance shardmap.Instance) {
	if n.instances == nil {
		n.onAppHealthChange()
		return
	}
	n.events.Add(eventlog.InstanceHealth(n.self, instance, n.health.IsHealthy(int(instance))))
	n.updateAfterHealthChange()
}

// wrapDials makes the proxy report the result of each dial of an app instance to the health and to the
// watch of the instance.
func wrapDials(health *apphealth.Group, watches []*appWatch, first func(context.Context) (net.Conn, error), further []func(context.Context) (net.Conn, error)) (wrappedFirst func(context.Context) (net.Conn, error), wrappedFurther []func(context.Context) (net.Conn, error)) {
	wrap := func(instance int, dial func(context.Context) (net.Conn, error)) func(context.Context) (net.Conn, error) {
		checker := health.At(instance)
		if dial == nil || checker == nil {
			return nil
		}
		return checker.WatchDial(watches[instance].wrapDial(dial))
	}
	for i, dial := range further {
		wrappedFurther = append(wrappedFurther, wrap(i+1, dial))
	}
	return wrap(0, first), wrappedFurther
}

// forInstance returns the appWatch of a further app instance.
func (w *appWatch) forInstance(o *Options, instance shardmap.Instance) *appWatch {
	stored, err := o.Dir.FurtherAppInstance(int(instance))
	if err != nil {
		o.Log.Warn().Err(err).Int("instance", instance.Number()).Msg("app instance not read")
	}
	store := func(reported string) error { return o.Dir.StoreFurtherAppInstance(int(instance), reported) }
	name := fmt.Sprintf("app instance of %d", instance.Number())
	return &appWatch{newestState: w.newestState, stored: persist.New(name, stored, store, o.Log), log: o.Log, detector: ackagent.NewAppWatch(stored)}
}

// addTo adds the health of the instances to the observation. is may be nil.
func (is *instanceSelection) addTo(now time.Duration, observation *ackagent.Observation) {
	if is == nil {
		return
	}
	if !observation.State.FormatVersion().HasInstances() {
		is.addFirst(observation)
		return
	}
	committed := observation.State.Committed()
	checks := is.health.Checks()
	for i, check := range checks {
		switch {
		case check.Absent:
			observation.RemovedInstances = observation.RemovedInstances.With(shardmap.Instance(i))
		case check.Unhealthy:
			observation.UnhealthyInstances = observation.UnhealthyInstances.With(shardmap.Instance(i))
		}
	}
	health := is.selector.Update(now, checks, func(instance shardmap.Instance) bool {
		return committed.InstanceCount(is.self, instance) > 0
	})
	observation.Instances, observation.Unhealthy, observation.App = health.Instances, health.Unhealthy, health.App
	for _, watch := range is.watches[1:] {
		observation.InstancesStartedAfter = append(observation.InstancesStartedAfter, watch.startedAfter())
	}
}

// addFirst adds the health of the first instance, to which all shards of the node belong before
// ack.InstancesFormatVersion is in force.
func (is *instanceSelection) addFirst(observation *ackagent.Observation) {
	if !is.hasWarned {
		is.hasWarned = true
		is.log.Warn().Uint8("format_version", uint8(ack.InstancesFormatVersion)).Str("remedy", "update all nodes, then run shardway upgrade finalize").Msg("further app instances wait for upgrade")
	}
	first := is.health.Checks()[0]
	observation.Unhealthy, observation.App = first.Absent || first.Unhealthy, first.Health
}

// onStateApplied is appWatch.onStateApplied for the instances after the first one. is may be nil.
func (is *instanceSelection) onStateApplied(observation *ackagent.Observation, hasLease bool) {
	if is == nil {
		return
	}
	for _, watch := range is.watches[1:] {
		watch.onStateApplied(observation.State, hasLease)
	}
	if hasLease {
		is.recordFree(observation.State)
	}
}

// recordFree records the instances that are not configured and own no shards any more. Another address
// may then get their numbers. The node must have a lease: otherwise state may be older than the map
// of an earlier process of the node.
func (is *instanceSelection) recordFree(state *ack.State) {
	if state.HasOpenProposal() {
		return
	}
	free := is.free
	for i := range is.health.Len() {
		if is.health.At(i) == nil && mayReuse(state.Committed(), is.self, shardmap.Instance(i)) {
			free |= 1 << i
		}
	}
	if free != is.free {
		is.free = free
		is.stored.Set(free)
	}
}

// mayReuse reports whether the instance owns no shards in the committed map and cannot get one with the
// next map.
func mayReuse(committed *shardmap.Map, self shardmap.NodeID, instance shardmap.Instance) bool {
	mayOwnShards := slices.ContainsFunc(committed.Members(), func(member shardmap.Member) bool {
		return member.ID == self && member.Instances.Has(instance)
	})
	return !mayOwnShards && committed.InstanceCount(self, instance) == 0
}

// startedAfter returns the time since which the app process runs, as the epoch of a map; zero means
// unknown. w may be nil.
func (w *appWatch) startedAfter() shardmap.Epoch {
	if w == nil {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.detector.StartedAfter()
}
