// Package retry limits how often the proxy sends requests again, so that a failing app does not get
// its load twice.
//
// Budget is a token bucket: each request earns a fifth of a retry. Any number of goroutines may use
// it.
package retry
