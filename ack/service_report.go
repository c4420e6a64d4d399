package ack

import (
	"slices"

	"shardway/shardmap"
)

// maxServiceReports is the maximum length of Heartbeat.Services: each service needs an app instance.
const maxServiceReports = shardmap.MaxInstances

// ServiceReport is the report of a node about a service that it runs.
type ServiceReport struct {
	// ID is the ID of the service in the replicated state.
	ID uint64
	// Instances are the app instances of the service that may own shards.
	Instances shardmap.InstanceSet
	// Unhealthy means that none of them responds.
	Unhealthy bool
	// App contains further results of their health checks.
	App AppHealth
}

// ServiceReport returns the report about the service. runs is false if the node does not run it.
func (h *Heartbeat) ServiceReport(service Service) (report ServiceReport, runs bool) {
	if !h.HasServices {
		return ServiceReport{ID: service.ID, Instances: h.Instances, Unhealthy: h.Unhealthy, App: h.App}, service.Name == DefaultService
	}
	i := slices.IndexFunc(h.Services, func(report ServiceReport) bool { return report.ID == service.ID })
	if i < 0 {
		return ServiceReport{}, false
	}
	return h.Services[i], true
}

// OmitServices removes the services from the heartbeat. A node with configured services then runs none.
func (h *Heartbeat) OmitServices() { h.HasServices, h.Services = false, nil }

// hasServices reports whether the heartbeat contains the section about services, the last one.
func (h *Heartbeat) hasServices() bool { return h.HasServices && h.FormatVersion.HasServices() }

// writeServiceReports writes the section about services.
func (w *writer) writeServiceReports(reports []ServiceReport) {
	w.uint(uint64(len(reports)))
	for _, report := range reports {
		w.uint(report.ID)
		w.uint(uint64(report.Instances))
		w.byte(flags(report.App.Failing, report.App.Refused, report.App.Starting, report.Unhealthy))
		w.uint(uint64(min(report.App.FlapCount, maxFlaps)))
	}
}

// flagServiceUnhealthy follows the flags of AppHealth in the flag byte of a ServiceReport.
const flagServiceUnhealthy = allAppFlags + 1

// readServiceReports reads the section about services, if there is one.
func (r *reader) readServiceReports(h *Heartbeat) {
	if r.err != nil || len(r.buf) == 0 || !r.version.HasServices() {
		return
	}
	h.HasServices = true
	next := uint64(0) // the lowest ID that may follow
	for range r.uint(0, maxServiceReports) {
		report := ServiceReport{ID: r.uint(next, maxUint-1), Instances: shardmap.InstanceSet(r.uint(0, maxUint32))}
		bits := r.byte()
		report.Unhealthy, report.App = bits&flagServiceUnhealthy != 0, r.readAppHealthOf(bits&^flagServiceUnhealthy)
		if r.err == nil && report.Instances != report.Instances.Normalized() {
			r.fail("set of instances of a service")
		}
		if r.err != nil {
			return
		}
		h.Services, next = append(h.Services, report), report.ID+1
	}
}
