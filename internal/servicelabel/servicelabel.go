// Package servicelabel describes metrics that have the label service only if the configuration of the node has
// services. Without services, dashboards and alerts get the same series as before.
//
// Desc is created once for each metric, and may be used from any goroutine.
package servicelabel

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Name is the label with the name of a service. It is the last label of a metric.
const Name = "service"

// Desc contains the descriptions of a metric with and without the label.
type Desc struct{ plain, labeled *prometheus.Desc }

// NewDesc returns the descriptions of a metric with these further labels.
func NewDesc(name, help string, labels ...string) Desc {
	return Desc{plain: prometheus.NewDesc(name, help, labels, nil), labeled: prometheus.NewDesc(name, help, append(slices.Clone(labels), Name), nil)}
}

// For returns the description with the label if hasServices is set, otherwise the one without it.
func (d Desc) For(hasServices bool) *prometheus.Desc {
	if hasServices {
		return d.labeled
	}
	return d.plain
}
