// Package memory decides how much memory the Go runtime keeps.
//
// Limit lets it know what the process's container may have. Run gives back, while the process
// rests, what is not in use: the collector lets as much garbage be there as there is in use
// before it looks, and what a burst took the runtime keeps for the next one. Under load that is
// right, as less would be more work. A process that rests has the time, and what it holds then
// is what it has in use: of thousands of connections that say nothing about half
// (docs/internals/performance-log.md, "Idle WebSockets").
package memory
