// Package retry limits how often the proxy retries requests, so that retries do not double the load on a failing
// app.
//
// Budget is a token bucket: each request earns a fifth of a retry. Any number of goroutines may use
// it.
package retry
