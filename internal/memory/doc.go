// Package memory decides how much memory the Go runtime keeps.
//
// Limit sets the memory limit of the runtime from the limit of the container. Run returns
// unused memory to the system while the process is idle.
//
// The garbage collector starts when there is as much garbage as live memory, and after a burst the runtime keeps
// the freed memory for the next burst. Under load this is right, because collecting more often costs CPU time,
// which an idle process has to spare. With thousands of idle connections, Run halves the memory of the process
// (docs/internals/performance-log-websockets.md, "Idle WebSockets").
package memory
