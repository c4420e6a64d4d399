// Package appinstance follows the app instances of a node: when their processes restart, and which of them
// may own shards.
//
//   - Watch detects restarts of one app instance. A node has one for each instance if shards may return only
//     to a restarted app.
//   - Selection reports the healthy instances to the agent of the lease protocol, and records which numbers of removed instances may be reused. Only a node with several instances has one.
//
// The health checks and the dials of the proxy call a Watch from any goroutine. Only the goroutine of the agent
// calls a Selection. Run of both types writes to disk in a separate goroutine.
package appinstance
