// Package metrics contains the counters and histograms of a node.
//
// Metrics belongs to a Node, whose parts increment the exported fields. Hooks measures hook calls. Both may be used
// from any goroutine. Package node computes the gauges at each scrape.
package metrics
