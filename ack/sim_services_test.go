package ack_test

import (
	"cmp"
	"slices"
	"time"

	"shardway/ack"
	"shardway/ack/agent"
	"shardway/shardmap"
)

// Clusters with several services in a schedule: services are added and removed, and nodes restart with
// other services. A shard may only run at an app instance of its service.

// simServices are the names of the services. The app instance with the same index runs the service.
func simServices() [simInstances]string {
	return [simInstances]string{ack.DefaultService, "chat", "mail"}
}

// serviceFaults is the configuration of the services of a host. The zero value is a host without services.
type serviceFaults struct {
	hasServices bool
	// runs are the services that it runs, and nextRuns those that its next process runs.
	runs, nextRuns [simInstances]bool
}

// serviceCoverage counts what occurred in schedules with services.
type serviceCoverage struct {
	servicesAdded, servicesLoaded, servicesRemoved, serviceMoves, serviceLists, serviceOrphans int
}

// serviceChecks is global knowledge about services.
type serviceChecks struct {
	// services contains each service that has existed, by its ID.
	services map[uint64]ack.Service
}

// addServices gives most hosts configured services, and three app instances. The others run the default
// service.
func (w *world) addServices() {
	w.services = map[uint64]ack.Service{}
	for _, h := range w.hosts {
		if h.hasServices = w.n(6) > 0; !h.hasServices {
			continue
		}
		h.count = simInstances
		if h.gateway {
			continue
		}
		for i := range h.runs {
			h.runs[i] = w.n(3) > 0
		}
		h.runs[w.n(simInstances)] = true
		h.nextRuns = h.runs
	}
}

// readServices applies the configured services when a process of the node starts.
func (h *host) readServices() {
	if h.runs == h.nextRuns {
		return
	}
	h.runs = h.nextRuns
	h.w.cover.serviceLists++
	h.w.logf("%s starts with the services %v", h.id, h.serviceNames())
}

// serviceNames returns the names of the services that the host runs.
func (h *host) serviceNames() []string {
	var names []string
	for i, name := range simServices() {
		if h.runsService(shardmap.Instance(i)) {
			names = append(names, name)
		}
	}
	return names
}

// runsService reports whether the host runs the service of the given index.
func (h *host) runsService(index shardmap.Instance) bool {
	if !h.hasServices {
		return index == 0 && !h.gateway
	}
	return h.runs[index]
}

// configuredServices returns the instances that run a service.
func (h *host) configuredServices() shardmap.InstanceSet {
	bits := ack.InstanceBits(0)
	for i, runs := range h.runs {
		if runs {
			bits = bits.With(shardmap.Instance(i))
		}
	}
	return shardmap.InstanceSet(bits).Normalized()
}

// reportServices adds the services and their health to the observation of the node.
func (p *proc) reportServices(s agent.Observation) agent.Observation {
	h := p.h
	s.HasServices, s.Instances = true, h.configuredServices()
	if !h.gateway {
		s.InstancesStartedAfter = make([]shardmap.Epoch, h.count-1)
	}
	anyHealthy := false
	for i, name := range simServices() {
		if !h.runs[i] {
			continue
		}
		state := &h.states[i]
		fails := state.down || state.hangs || state.sick || h.unhealthy
		anyHealthy = anyHealthy || !fails
		if service, exists := p.fsm.Service(name); exists {
			s.Services = append(s.Services, ack.ServiceReport{
				ID: service.ID, Instances: shardmap.InstanceSet(1 << i).Normalized(), Unhealthy: fails,
				App: ack.AppHealth{Failing: fails || h.failing, Refused: state.down || h.failing && h.refused},
			})
		}
	}
	slices.SortFunc(s.Services, func(a, b ack.ServiceReport) int { return int(a.ID) - int(b.ID) })
	s.Unhealthy = h.unhealthy || !anyHealthy && !h.gateway && h.runs != [simInstances]bool{}
	return s
}

// serviceIndex returns the index of the service that has the shard in its range.
func serviceIndex(s *ack.State, shard shardmap.Shard) (index shardmap.Instance, found bool) {
	service, found := s.ServiceOf(shard)
	names := simServices()
	i := slices.Index(names[:], service.Name)
	return shardmap.Instance(max(i, 0)), found && i >= 0
}

// checkServices checks a map that was just proposed or committed: each shard with an owner belongs to
// a service, and is at the app instance of this service.
func (w *world) checkServices(s *ack.State, m *shardmap.Map) {
	if w.services == nil {
		return
	}
	for shard := range shardmap.Shard(m.Len()) {
		if m.Owner(shard) == "" {
			w.cover.serviceOrphans++
			continue
		}
		if index, found := serviceIndex(s, shard); !found || m.Instance(shard) != index {
			w.fail("services: %d has shard %d at %s, found: %v", m.Epoch(), shard, m.OwnerInstanceID(shard), found)
		}
	}
	if m.Len() > w.shards {
		w.shards = m.Len()
		w.newest = append(w.newest, make([]shardmap.Epoch, w.shards-len(w.newest))...)
	}
}

// checkServiceList checks a list of services that an entry changed: ranges do not overlap, no range changes,
// and a removed service had no owners.
func (w *world) checkServiceList(before, after *ack.State, byOperator bool) {
	if w.services == nil {
		return
	}
	end := 0
	for _, service := range after.Services() {
		if int(service.First) < end {
			w.fail("services: ranges overlap: %+v", after.Services())
		}
		end = service.End()
		if known, isKnown := w.services[service.ID]; isKnown && known != service {
			w.fail("services: %+v was %+v", service, known)
		}
		if _, isOld := before.Service(service.Name); !isOld {
			w.cover.servicesAdded++
			w.checkAutomaticAddition(before, service, byOperator)
		}
		w.services[service.ID] = service
	}
	for _, service := range before.Services() {
		if slices.Contains(after.Services(), service) {
			continue
		}
		w.cover.servicesRemoved++
		for shard := service.First; int(shard) < service.End(); shard++ {
			if before.Committed().Owner(shard) != "" || before.Proposed().Owner(shard) != "" {
				w.fail("services: %s is removed, and shard %d has an owner", service.Name, shard)
			}
			delete(w.lastOf, shard) // the next service with this shard follows no owner
		}
	}
}

// checkAutomaticAddition checks a service that the leader has added without a request: every member has loaded a key
// configuration that names it with this number of shards.
func (w *world) checkAutomaticAddition(before *ack.State, service ack.Service, byOperator bool) {
	if byOperator {
		return
	}
	w.cover.servicesLoaded++
	for _, m := range before.Committed().Members() {
		hasLoaded := func(h *host) bool {
			return h.id == m.ID && h.hasLoadedService(ack.ServiceSpec{Name: service.Name, Shards: service.Shards})
		}
		if !slices.ContainsFunc(w.hosts, hasLoaded) {
			w.fail("services: %s is added with %d shards, and %s has never loaded it", service.Name, service.Shards, m.ID)
		}
	}
}

// checkRunners checks the services that the leader passed to Assign against the heartbeats that it knew: a
// node runs each service there, and a node whose app of it is unhealthy has shards of it already.
func (w *world) checkRunners(before *ack.State, e *logEntry) {
	for i, placed := range e.services {
		service := before.Services()[i]
		if placed.First != service.First || placed.Count != service.Shards {
			w.fail("services: the leader places %+v as %d shards from %d", service, placed.Count, placed.First)
		}
		for id := range placed.Instances {
			hb, known := e.heartbeats[id]
			if !known || before.Restarting(id) {
				continue
			}
			report, runs := hb.ServiceReport(service)
			ownsShards := slices.ContainsFunc(before.Proposed().Members(), func(m shardmap.Member) bool { return m.ID == id }) && ownsAny(before.Proposed(), id, service)
			if !runs || report.Unhealthy && !ownsShards {
				w.fail("services: %s may get shards of %s: it runs it: %v, it is unhealthy: %v", id, service.Name, runs, report.Unhealthy)
			}
		}
	}
}

// checkNewOrphans checks that a proposal takes no shard from a node that remains a member, and gives it to no
// node, unless the node does not run the service any more, its app is unhealthy, or the node should own
// nothing.
func (w *world) checkNewOrphans(before, after *ack.State, e *logEntry) {
	if w.services == nil {
		return
	}
	for _, move := range shardmap.Diff(before.Committed(), after.Proposed()) {
		service, exists := before.ServiceOf(move.Shard)
		if move.To != "" || !exists || !after.Proposed().IsMember(move.From) {
			continue
		}
		hb, known := e.heartbeats[move.From]
		report, runs := hb.ServiceReport(service)
		isDrained := before.Policy().DrainsInstance(move.From, move.FromInstance) || before.Policy().DrainsAll(move.From, hb.Instances)
		if isDrained || hb.Leaving || hb.Goodbye {
			continue
		}
		if before.HasOpenProposal() && before.Proposed().Owner(move.Shard) != move.From && (!known || before.Restarting(move.From)) {
			continue // the leader knows only what an earlier leader has decided in the open proposal
		}
		if !known || before.Restarting(move.From) || runs && !report.Unhealthy && report.Instances.Has(move.FromInstance) {
			w.fail("services: %d takes shard %d from %s, which runs %s, for no node", after.Proposed().Epoch(), move.Shard, move.From, service.Name)
		}
	}
}

// ownsAny reports whether the node owns a shard of the service.
func ownsAny(m *shardmap.Map, id shardmap.NodeID, service ack.Service) bool {
	for shard := service.First; int(shard) < service.End(); shard++ {
		if m.Owner(shard) == id {
			return true
		}
	}
	return false
}

// checkServiceRun judges the first byte that goes to the app: the instance runs the service of the shard.
func (w *world) checkServiceRun(p *proc, r *simReq) {
	if w.services == nil {
		return
	}
	if index, found := serviceIndex(p.table, r.shard); !found || index != r.instance || !p.h.runsService(index) {
		w.fail("services: %s runs a request for shard %d at instance %d, found: %v", p.h.id, r.shard, r.instance, found)
	}
}

// checkServiceOfCall checks that a call names the service of its shards and the beginning of its range. A call
// that is not an acquire may name a range that the list no longer has.
func (w *world) checkServiceOfCall(p *proc, c *simCall) {
	if w.services == nil || c.Kind != agent.HookAcquire {
		return
	}
	for _, hs := range c.Shards {
		service, found := p.table.ServiceOf(hs.Shard)
		if name := cmp.Or(c.Service, ack.DefaultService); found && (name != service.Name || c.First != service.First) {
			w.fail("services: %s calls a hook for shard %d of %+v as one of %s from %d", p.h.id, hs.Shard, service, name, c.First)
		}
	}
}

// noteServices records what a leader knew about services when it submitted a proposal.
func (l *leaderLoop) noteServices(p *queuedPolicy) {
	if l.p.w.services == nil {
		return
	}
	p.services, p.heartbeats = l.turn.Services(), map[shardmap.NodeID]ack.Heartbeat{}
	for _, v := range l.turn.View() {
		if v.SinceHeartbeat >= 0 {
			p.heartbeats[v.Node] = v.Heartbeat
		}
	}
}

// mayOwn reports whether the host is expected to own shards of the service with the given index.
func (h *host) mayOwn(index shardmap.Instance) bool {
	return h.runsService(index) && !h.gateway && !h.stuck() && !h.drained() && h.proc != nil &&
		!h.w.truth.Policy().Drained[shardmap.InstanceName(h.id, index)]
}

// orphansExpected reports whether no host can own any of the orphaned shards.
func (w *world) orphansExpected(m *shardmap.Map) bool {
	if w.services == nil {
		return m.OrphanCount() == 0
	}
	for shard := range shardmap.Shard(m.Len()) {
		index, found := serviceIndex(w.truth, shard)
		if m.Owner(shard) == "" && found && slices.ContainsFunc(w.hosts, func(h *host) bool { return h.mayOwn(index) }) {
			return false
		}
	}
	return true
}

// servicesSettled reports whether the shards of each service are even among the hosts that run it. An
// operator may have caused another distribution, and so may apps that cache.
func (w *world) servicesSettled() bool {
	policy := w.truth.Policy()
	if w.services == nil || w.spreadZones || len(policy.Weights)+len(policy.Cordoned)+len(policy.Pins)+len(policy.Drained) > 0 || policy.Pause > 0 {
		return true
	}
	for _, h := range w.hosts {
		if h.cache != nil || h.keepsShards() || h.stuck() || h.twin != nil {
			return true
		}
	}
	m := w.truth.Committed()
	for _, service := range w.truth.Services() {
		index, known := serviceIndex(w.truth, service.First)
		total := 0
		for _, h := range w.hosts {
			if known && h.mayOwn(index) {
				total += int(h.weight)
			}
		}
		for _, h := range w.hosts {
			count := 0
			for shard := service.First; int(shard) < service.End(); shard++ {
				if m.Owner(shard) == h.id {
					count++
				}
			}
			quota := 0
			if known && h.mayOwn(index) {
				quota = service.Shards * int(h.weight)
			}
			if difference := count*max(total, 1) - quota; difference >= max(total, 1) || -difference >= max(total, 1) {
				return false
			}
		}
	}
	return true
}

// faultServiceAdd adds a service, or requests one that exists already.
func faultServiceAdd(w *world) bool {
	l := w.someLeader()
	if l == nil {
		return false
	}
	name := simServices()[w.pick(simInstances)]
	return l.proc.lead.changePolicy(ack.Change{Kind: ack.ChangeAddService, Service: name, Shards: 1 + w.pick(5)})
}

// faultServiceRemove requests the removal of a service.
func faultServiceRemove(w *world) bool {
	l := w.someLeader()
	if l == nil {
		return false
	}
	name := simServices()[w.pick(simInstances)]
	return l.proc.lead.changePolicy(ack.Change{Kind: ack.ChangeRemoveService, Service: name})
}

// restartWithServices restarts a node with other services.
func (h *host) restartWithServices(next [simInstances]bool) {
	h.nextRuns = next
	if h.proc != nil && !h.stopped && !h.proc.leaving && !h.proc.closing {
		h.restart(restarting{back: 6 * time.Second, down: h.w.span(10*time.Millisecond, 800*time.Millisecond)})
	}
}

// faultServiceList restarts a node with one more service, or one less.
func faultServiceList(w *world) bool {
	h := w.randomHost(func(h *host) bool { return running(h) && h.hasServices && !h.gateway })
	if h == nil || h.proc.leaving || h.proc.closing {
		return false
	}
	next, i := h.nextRuns, w.pick(simInstances)
	next[i] = !next[i]
	h.restartWithServices(next)
	return true
}

// faultServiceRetire removes a service from all nodes, then from the cluster, and then adds it again with
// another number of shards.
func faultServiceRetire(w *world) bool {
	i := 1 + w.pick(simInstances-1)
	name := simServices()[i]
	hit := false
	for _, h := range w.hosts {
		if h.nextRuns[i] {
			next := h.nextRuns
			next[i], hit = false, true
			h.restartWithServices(next)
		}
	}
	if !hit {
		return false
	}
	request := func(d time.Duration, change ack.Change) {
		w.after(d, nil, func() {
			if l := w.someLeader(); l != nil {
				l.proc.lead.changePolicy(change)
			}
		})
	}
	d := w.span(time.Second, 3*time.Second)
	request(d, ack.Change{Kind: ack.ChangeRemoveService, Service: name})
	request(d+w.span(0, time.Second), ack.Change{Kind: ack.ChangeAddService, Service: name, Shards: 1 + w.pick(4)})
	w.after(d+w.span(0, 2*time.Second), nil, func() {
		for _, h := range w.hosts {
			if h.hasServices && !h.gateway && w.n(2) == 0 {
				next := h.nextRuns
				next[i] = true
				h.restartWithServices(next)
			}
		}
	})
	w.run(w.now+d, nil)
	return true
}

// deferringInstances returns the instances that have not failed of each owner that keeps busy shards.
func (l *leaderLoop) deferringInstances(owners []shardmap.NodeID) map[shardmap.NodeID]shardmap.InstanceSet {
	if l.p.w.services == nil {
		return nil
	}
	deferring := map[shardmap.NodeID]shardmap.InstanceSet{}
	for _, id := range owners {
		if instances, defers := l.turn.DeferringInstances(id); defers {
			deferring[id] = instances
		}
	}
	return deferring
}

// mostlyUnhealthyServices returns the services of which most apps are unhealthy, by ID.
func (l *leaderLoop) mostlyUnhealthyServices() map[uint64]bool {
	if l.p.w.services == nil {
		return nil
	}
	s, most := l.driverState(), map[uint64]bool{}
	for _, service := range s.Services() {
		apps, unhealthy := 0, 0
		for _, v := range l.turn.View() {
			hb := v.Heartbeat
			report, runs := hb.ServiceReport(service)
			owns := ownsAny(s.Proposed(), v.Node, service)
			if v.SinceHeartbeat < 0 {
				if owns && l.p.clock()-l.turn.StartedAt() < l.p.w.deadAfter() {
					apps++
				}
				continue
			}
			if !runs || v.Silent || v.Crashed || v.Restarting || hb.Gateway || hb.Leaving || hb.Goodbye || s.Policy().DrainsAll(v.Node, hb.Instances) {
				continue
			}
			apps++
			if report.Unhealthy {
				unhealthy++
			}
		}
		most[service.ID] = 2*unhealthy > apps
	}
	return most
}

// checkServiceHealth checks a proposal: a node may still own shards of a service whose app is unhealthy, if
// most apps of the service are unhealthy.
func (l *leaderLoop) checkServiceHealth(next *ack.State) {
	told, w := l.driverState(), l.p.w
	most := l.mostlyUnhealthyServices()
	for i, placed := range l.turn.Services() {
		service := told.Services()[i]
		if !most[service.ID] || !l.mostUnhealthy[service.ID] {
			continue
		}
		w.cover.panics++
		for _, v := range l.turn.View() {
			report, runs := v.Heartbeat.ServiceReport(service)
			isMember := next.Proposed().IsMember(v.Node) && ownsAny(told.Proposed(), v.Node, service)
			isOut := v.SinceHeartbeat < 0 || v.Silent || v.Crashed || v.Restarting || v.Heartbeat.Leaving || v.Heartbeat.Goodbye
			isDrained := told.Policy().DrainsAll(v.Node, v.Heartbeat.Instances)
			if !isMember || isOut || isDrained || !runs || !report.Unhealthy {
				continue
			}
			if _, isPlaced := placed.Instances[v.Node]; !isPlaced {
				w.fail("health: %s may own no shards of %s, though most of its apps are unhealthy", v.Node, service.Name)
			}
		}
	}
}

// anyServiceHealthy reports whether the node runs a service whose app is healthy.
func anyServiceHealthy(hb ack.Heartbeat) bool {
	isHealthy := func(report ack.ServiceReport) bool { return !report.Unhealthy }
	return !hb.HasServices || slices.ContainsFunc(hb.Services, isHealthy)
}

// placesNewService reports whether a proposal gives owners to the shards of a new service. Such a change
// waits for further nodes, while earlier answers about idle shards get too old, and then it is urgent.
func (w *world) placesNewService(base, p *shardmap.Map) bool {
	return w.services != nil && slices.ContainsFunc(shardmap.Diff(base, p), func(move shardmap.Move) bool { return move.From == "" })
}

// sameServices reports whether two states have the same services.
func sameServices(a, b *ack.State) bool { return slices.Equal(a.Services(), b.Services()) }

// countServiceMoves counts moves of shards of services after the first one.
func (w *world) countServiceMoves(old, next *shardmap.Map) {
	if w.services == nil {
		return
	}
	for _, move := range shardmap.Diff(old, next) {
		if index, found := serviceIndex(w.truth, move.Shard); found && index > 0 && move.From != "" && move.To != "" {
			w.cover.serviceMoves++
		}
	}
}
