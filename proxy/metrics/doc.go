// Package metrics counts the requests, connections and WebSockets of a proxy, and converts the counts
// into Prometheus metrics.
//
// The proxy updates the counters of Metrics directly, from any goroutine and without a lock, because it does so for
// each request. For a scrape, it passes its other values to Collect.
package metrics
