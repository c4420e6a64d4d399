package ack

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"shardway/shardmap"
)

// Several services can share the shard map of a cluster. Each service has its own range of shards. The
// replicated state contains the list of services, so all nodes use the same ranges. A range never
// changes while its service exists, because each key would get another shard. The map gets longer for a
// new service, and never shorter. Shards outside all ranges have no owner.

const (
	// DefaultService is the name of the only service of a cluster without a list of services.
	DefaultService = "default"
	// MaxServices is the maximum number of services of a cluster.
	MaxServices = 64
	// MaxServiceName is the maximum length of the name of a service.
	MaxServiceName = 32
)

// ServicesFormatVersion is the first format version in which log entries and heartbeats can contain
// services. Data about a cluster without a list of services is encoded without them.
const ServicesFormatVersion = InstancesFormatVersion

// HasServices reports whether data of this format version can contain services.
func (v FormatVersion) HasServices() bool { return v >= ServicesFormatVersion }

// Service is an app of the cluster with its own shards.
type Service struct {
	// ID identifies the service in heartbeats. No other service ever has the same ID, even if it has the
	// same name.
	ID     uint64
	Name   string
	First  shardmap.Shard // first shard of the range
	Shards int            // number of shards of the range
}

// End returns the first shard after the range of the service.
func (sv Service) End() int { return int(sv.First) + sv.Shards }

// Contains reports whether the shard is in the range of the service.
func (sv Service) Contains(shard shardmap.Shard) bool {
	return shard >= sv.First && int(shard) < sv.End()
}

// ValidServiceName reports whether name consists of 1 to MaxServiceName lower-case letters, digits and
// dashes, and neither begins nor ends with a dash.
func ValidServiceName(name string) bool {
	isOther := func(char rune) bool {
		return (char < 'a' || char > 'z') && (char < '0' || char > '9') && char != '-'
	}
	hasOuterDash := strings.HasPrefix(name, "-") || strings.HasSuffix(name, "-")
	return len(name) >= 1 && len(name) <= MaxServiceName && !hasOuterDash && !strings.ContainsFunc(name, isOther)
}

// ServiceSpec is the name and the number of shards of a service that has no range yet.
type ServiceSpec struct {
	Name   string
	Shards int
}

// serviceList is the list of services in the replicated state. The zero value is a cluster without a
// list. It has one service, DefaultService, with all shards.
type serviceList struct {
	services []Service // ascending by First; never modified
	lastID   uint64    // highest ID that a service has had
}

// Reasons why a change of the services has no effect. A ServiceError wraps one of them.
var (
	// ErrServiceShards reports that the service exists with another number of shards.
	ErrServiceShards = errors.New("the number of shards of a service cannot change")
	// ErrTooManyServices reports that the cluster has MaxServices services.
	ErrTooManyServices = fmt.Errorf("a cluster has at most %d services", MaxServices)
	// ErrNoServiceRange reports that no range of the given length is free.
	ErrNoServiceRange = fmt.Errorf("the services of a cluster have at most %d shards in all", MaxShards)
	// ErrNoService reports that no service has the name.
	ErrNoService = errors.New("no such service")
	// ErrLastService reports the removal of the only service.
	ErrLastService = errors.New("a cluster has at least one service")
	// ErrServiceInUse reports the removal of a service whose shards have owners.
	ErrServiceInUse = errors.New("nodes own shards of the service")
	// ErrServiceRuns reports the removal of a service that a node still runs.
	ErrServiceRuns = errors.New("nodes run the service")
	// ErrServicesFormat reports a cluster whose format version has no services.
	ErrServicesFormat = fmt.Errorf("services need format version %d: run `shardway upgrade status`", ServicesFormatVersion)
)

// ServiceError reports a change of the services that would have no effect. It unwraps to ErrChange and to
// the reason.
type ServiceError struct {
	Service string
	Reason  error
	// Shards is the number of shards that the service has, for ErrServiceShards.
	Shards int
	// Nodes are the nodes that run the service, ascending, for ErrServiceRuns.
	Nodes []shardmap.NodeID
}

// Error returns a message with the name of the service.
func (e *ServiceError) Error() string {
	if e.Shards > 0 {
		return fmt.Sprintf("service %s has %d shards: %v", e.Service, e.Shards, e.Reason)
	}
	if len(e.Nodes) > 0 {
		return fmt.Sprintf("service %s: %v: %v", e.Service, e.Reason, e.Nodes)
	}
	return fmt.Sprintf("service %s: %v", e.Service, e.Reason)
}

// Unwrap returns ErrChange and the reason.
func (e *ServiceError) Unwrap() []error { return []error{ErrChange, e.Reason} }

// HasServices reports whether the cluster has a list of services.
func (s *State) HasServices() bool { return len(s.services.services) > 0 }

// Services returns the services, ascending by their ranges. A cluster without a list has DefaultService. The
// result is empty before the bootstrap. It must not be modified.
func (s *State) Services() []Service {
	if !s.HasServices() && s.Bootstrapped() {
		return []Service{{Name: DefaultService, Shards: s.committed.Len()}}
	}
	return s.services.services
}

// Service returns the service with the name.
func (s *State) Service(name string) (Service, bool) {
	return findService(s.Services(), func(service Service) bool { return service.Name == name })
}

// ServiceOf returns the service that has the shard in its range.
func (s *State) ServiceOf(shard shardmap.Shard) (Service, bool) {
	return findService(s.Services(), func(service Service) bool { return service.Contains(shard) })
}

// findService returns the first service that matches.
func findService(services []Service, matches func(Service) bool) (Service, bool) {
	i := slices.IndexFunc(services, matches)
	if i < 0 {
		return Service{}, false
	}
	return services[i], true
}

// maxMapLength returns the maximum length of a proposed map: the ranges of the services need that length,
// or the last proposal has it.
func (s *State) maxMapLength() int {
	length := s.proposed.Len()
	for _, service := range s.services.services {
		length = max(length, service.End())
	}
	return length
}

// isServiceInUse reports whether a shard of the service has an owner in the committed or in the proposed map.
func (s *State) isServiceInUse(service Service) bool {
	for shard := service.First; int(shard) < service.End(); shard++ {
		if s.committed.Owner(shard) != "" || s.proposed.Owner(shard) != "" {
			return true
		}
	}
	return false
}

// isOfServices reports whether the change is a change of the list of services.
func (c Change) isOfServices() bool {
	return c.Kind == ChangeAddService || c.Kind == ChangeRemoveService
}

// checkServiceChange returns a *ServiceError if the change of the services would have no effect. Other
// changes are valid. To add a service again with the same number of shards is valid, too. It only creates
// the list of a cluster without one.
func (s *State) checkServiceChange(change Change) error {
	if !change.isOfServices() {
		return nil
	}
	service, exists := s.Service(change.Service)
	failed := ServiceError{Service: change.Service}
	switch isAdded := change.Kind == ChangeAddService; {
	case !s.formatVersion.HasServices():
		failed.Reason = ErrServicesFormat
	case isAdded && exists && service.Shards == change.Shards:
		return nil
	case isAdded && exists:
		failed.Reason, failed.Shards = ErrServiceShards, service.Shards
	case isAdded && len(s.Services()) >= MaxServices:
		failed.Reason = ErrTooManyServices
	case isAdded:
		if _, found := freeRange(s.Services(), change.Shards); found {
			return nil
		}
		failed.Reason = ErrNoServiceRange
	case !exists:
		failed.Reason = ErrNoService
	case len(s.Services()) == 1:
		failed.Reason = ErrLastService
	case s.isServiceInUse(service):
		failed.Reason = ErrServiceInUse
	default:
		return nil
	}
	return &failed
}

// freeRange returns the lowest range of the given length that overlaps with no service. found is false if
// there is none.
func freeRange(services []Service, length int) (first shardmap.Shard, found bool) {
	for _, service := range services {
		if int(service.First)-int(first) >= length {
			return first, true
		}
		first = shardmap.Shard(service.End())
	}
	return first, int(first)+length <= MaxShards
}

// with returns the list with one more service, whose range must be free.
func (l serviceList) with(name string, first shardmap.Shard, shards int) serviceList {
	l.lastID++
	l.services = append(slices.Clone(l.services), Service{ID: l.lastID, Name: name, First: first, Shards: shards})
	slices.SortFunc(l.services, func(a, b Service) int { return cmp.Compare(a.First, b.First) })
	return l
}

// changeServices applies a change of the services, which has no effect if checkServiceChange returns an
// error for it. The policy of s must not be shared.
func (s *State) changeServices(change Change) {
	service, exists := s.Service(change.Service)
	if s.checkServiceChange(change) != nil {
		return
	}
	list := s.services
	list.services = s.Services() // a cluster without a list gets one
	if isRepeated := change.Kind == ChangeAddService && exists; isRepeated {
		s.services = list
		return
	}
	if change.Kind == ChangeAddService {
		first, _ := freeRange(list.services, change.Shards)
		s.services = list.with(change.Service, first, change.Shards)
		return
	}
	list.services = slices.DeleteFunc(slices.Clone(list.services), func(other Service) bool { return other.ID == service.ID })
	s.services = list
	// Another service may get the same shards. The departures remain, because a process of the app may
	// still hold old copies when the service is added again.
	s.policy.deleteShards(service)
	s.previousOwners = s.previousOwners.without(service)
}

// deleteShards deletes the pins of the shards of a service, and the quarantines of their keys. The maps of
// p must not be shared.
func (p *Policy) deleteShards(service Service) {
	for shard := range p.Pins {
		if service.Contains(shard) {
			delete(p.Pins, shard)
			delete(p.PinFallbacks, shard)
		}
	}
	maps.DeleteFunc(p.Quarantined, func(key KeyFingerprint, _ Quarantine) bool { return service.Contains(key.Shard) })
	p.deleteObsoleteReasons()
}

// writeServices writes the list of services if there is one.
func (w *writer) writeServices(list serviceList) {
	if len(list.services) == 0 {
		return
	}
	w.uint(list.lastID)
	w.uint(uint64(len(list.services)))
	for _, service := range list.services {
		w.uint(service.ID)
		w.text(service.Name)
		w.uint(uint64(service.First))
		w.uint(uint64(service.Shards))
	}
}

// readServices decodes the output of writer.writeServices, which is the last field of a state. The list is empty
// if no bytes are left.
func (r *reader) readServices() serviceList {
	if r.err != nil || len(r.buf) == 0 || !r.version.HasServices() {
		return serviceList{}
	}
	list := serviceList{lastID: r.uint(0, maxUint)}
	names, ids := map[string]bool{}, map[uint64]bool{}
	end := 0
	for range r.uint(1, MaxServices) {
		service := Service{ID: r.uint(0, list.lastID), Name: r.readServiceName(), First: shardmap.Shard(r.uint(uint64(end), MaxShards-1)), Shards: int(r.uint(1, MaxShards))}
		if r.err != nil {
			break
		}
		if names[service.Name] || ids[service.ID] || service.End() > MaxShards {
			r.fail("services with the same name or ID, or with too many shards")
			break
		}
		names[service.Name], ids[service.ID], end = true, true, service.End()
		list.services = append(list.services, service)
	}
	if r.err != nil {
		return serviceList{}
	}
	return list
}

// writeServiceSpecs writes the services of a bootstrap entry if there are any.
func (w *writer) writeServiceSpecs(specs []ServiceSpec) {
	if len(specs) == 0 {
		return
	}
	w.uint(uint64(len(specs)))
	for _, spec := range specs {
		w.text(spec.Name)
		w.uint(uint64(spec.Shards))
	}
}

// readServiceSpecs decodes the output of writer.writeServiceSpecs, which is the last field of an entry. The sum of
// the shards must be total.
func (r *reader) readServiceSpecs(total int) []ServiceSpec {
	if r.err != nil || len(r.buf) == 0 || !r.version.HasServices() {
		return nil
	}
	var specs []ServiceSpec
	names, sum := map[string]bool{}, 0
	for range r.uint(1, MaxServices) {
		spec := ServiceSpec{Name: r.readServiceName(), Shards: int(r.uint(1, MaxShards))}
		if r.err == nil && names[spec.Name] {
			r.fail("two services with one name")
		}
		if r.err != nil {
			return nil
		}
		names[spec.Name] = true
		specs, sum = append(specs, spec), sum+spec.Shards
	}
	if r.err == nil && sum != total {
		r.fail(fmt.Sprintf("services with %d shards in a map of %d", sum, total))
	}
	return specs
}

// readServiceName reads the name of a service.
func (r *reader) readServiceName() string {
	name := r.text(1, MaxServiceName)
	if r.err == nil && !ValidServiceName(name) {
		r.fail("name of a service")
	}
	return name
}
