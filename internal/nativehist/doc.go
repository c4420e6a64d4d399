// Package nativehist counts durations in Prometheus native histograms without locks.
//
// Histogram counts with atomic adds. Observe and Metric may be called from any number of
// goroutines. The zero value is ready for use.
//
// The buckets are those of native histograms of schema 3: eight for each doubling, with the
// upper bounds 2^(n/8) seconds. Metric adds classic buckets for scrapers that do not support
// native histograms.
package nativehist
