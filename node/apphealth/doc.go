// Package apphealth checks periodically whether the app behind this node is healthy.
//
// A Checker runs the checks. Several failed checks in a row make the app unhealthy, and several
// passed checks in a row make it healthy again. The app is unhealthy until the first passed check,
// because a node whose app is not up must not get shards.
//
//	           Rise good checks
//	unhealthy ──────────────────► healthy
//	          ◄──────────────────
//	           Fall failed checks, after Settings.Hold while the app refuses connections
//
// # Concurrency
//
// Run makes the checks in its caller's goroutine and returns when its context ends. It calls the
// callback of NewChecker after each change. All other methods are safe for concurrent use and take
// no lock.
//
// # Invariants
//
//   - A check that fails because this process or machine lacks descriptors, ports or memory does not
//     make the app unhealthy.
//   - A request's refused connection brings the next check forward, and never delays it.
package apphealth
