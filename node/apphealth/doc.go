// Package apphealth checks periodically whether the app behind this node is healthy.
//
// A Checker runs the checks. Several failed checks in a row make the app unhealthy, and several good
// checks in a row make it healthy again. Until the first good check the app is unhealthy, because a
// node whose app is not up must get no shards.
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
//   - A refused connection of a request makes the next check earlier, never later.
package apphealth
