// Package processors adjusts GOMAXPROCS to the load.
//
// If the runtime may use several processors, each goroutine that becomes ready wakes a thread
// to look for work, and that thread wakes the next one. The work of a proxy comes in pieces of
// microseconds, so these wake-ups are a large part of its cost. With one processor, a request
// needs 10 to 25 % less CPU time and has the same latency (docs/internals/performance-log-idle.md,
// "As many processors as the work needs"). High load needs more than one processor, so a
// Governor measures the CPU time of the process:
//
//   - It permits all processors as soon as the current ones are busy, or its own check is late.
//   - It permits half as many after several seconds in which half would have sufficed.
//
// A Governor only decides, and Run applies its decisions to the runtime. Only one goroutine of
// a process may call Run, because GOMAXPROCS is a property of the whole process.
package processors
